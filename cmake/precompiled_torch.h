// What most sources that call LibTorch include. Precompiled where a whole build is to be fast (GRAFT_UNITY); no source includes
// this. ATen/ATen.h is not here: few include it, and a larger file takes longer to read.
#pragma once

#include <ATen/Context.h>
#include <ATen/Parallel.h>
#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/ivalue.h>
#include <ATen/ops/empty.h>
#include <torch/csrc/jit/runtime/operator.h>
#include <torch/library.h>
