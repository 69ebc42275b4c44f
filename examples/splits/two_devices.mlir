func.func @main(%x: tensor<128x256xf32>, %a: tensor<256x256xf32>, %b: tensor<256x256xf32>) -> tensor<128x256xf32> {
  %z = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<128x256xf32>
  %i = linalg.fill ins(%z : f32) outs(%e : tensor<128x256xf32>) -> tensor<128x256xf32>
  %h = linalg.matmul ins(%x, %a : tensor<128x256xf32>, tensor<256x256xf32>) outs(%i : tensor<128x256xf32>) -> tensor<128x256xf32>
  %t = flow.tensor.transfer %h : tensor<128x256xf32> to #hal.device.promise<@b>
  %y = linalg.matmul ins(%t, %b : tensor<128x256xf32>, tensor<256x256xf32>) outs(%i : tensor<128x256xf32>) -> tensor<128x256xf32>
  %r = flow.tensor.transfer %y : tensor<128x256xf32> to #hal.device.promise<@a>
  return %r : tensor<128x256xf32>
}
