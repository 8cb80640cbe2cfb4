#include "core/torch/run/direct_call.h"

#include <ATen/record_function.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

namespace graft {
namespace {

using c10::DispatchKey;

bool isTensorType(const c10::Type& t) {
  if (t.kind() == c10::TypeKind::OptionalType) return isTensorType(*t.expectRef<c10::OptionalType>().getElementType());
  return t.kind() == c10::TypeKind::TensorType;
}

/// Lists of tensors, and what may be anything: the dispatcher looks into them.
bool mayHoldTensors(const c10::Type& t) {
  switch (t.kind()) {
    case c10::TypeKind::OptionalType:
      return mayHoldTensors(*t.expectRef<c10::OptionalType>().getElementType());
    case c10::TypeKind::ListType:
      return mayHoldTensors(*t.expectRef<c10::ListType>().getElementType());
    case c10::TypeKind::TensorType:
    case c10::TypeKind::TupleType:
    case c10::TypeKind::DictType:
    case c10::TypeKind::AnyType:
    case c10::TypeKind::VarType:
      return true;
    default:
      return false;
  }
}

bool isPlainTensor(const c10::Argument& a) { return a.type()->kind() == c10::TypeKind::TensorType && !a.alias_info(); }

/// relu, exp, neg …; nothing where the operator was made for another C++ type.
void resolveUnary(Instruction& i) {
  const c10::FunctionSchema& schema = i.handle->schema();
  if (schema.arguments().size() != 1 || schema.returns().size() != 1 || schema.is_varret()) return;
  if (!isPlainTensor(schema.arguments()[0]) || !isPlainTensor(schema.returns()[0])) return;
  try {
    i.unary.emplace(i.handle->typed<at::Tensor(const at::Tensor&)>());
  } catch (const std::exception&) {
  }
}

}  // namespace

void resolveKernel(ProgramPlan& plan, Instruction& i) {
  const c10::OperatorHandle& op = *i.handle;
  const auto& parameters = op.schema().arguments();
  if (op.schema().is_vararg() || parameters.size() > 32) return;
  uint32_t tensors = 0;
  for (size_t k = 0; k < parameters.size(); ++k) {
    if (isTensorType(*parameters[k].type()))
      tensors |= uint32_t{1} << (parameters.size() - 1 - k);
    else if (mayHoldTensors(*parameters[k].type()))
      return;
  }
  // Operators that choose by other arguments than tensors have a kernel of their own for that.
  if (tensors == 0 || op.hasKernelForDispatchKey(DispatchKey::BackendSelect)) return;
  if (!op.hasComputedKernelForDispatchKey(DispatchKey::CPU)) return;
  if (op.hasKernelForDispatchKey(DispatchKey::CPU) && op.isKernelFallthroughKernel(DispatchKey::CPU)) return;
  i.kernel = &plan.kernels.emplace_back(op.getComputedKernelForDispatchKey(DispatchKey::CPU));
  i.tensors = tensors;
  i.keepsViews = op.hasKernelForDispatchKey(DispatchKey::ADInplaceOrView);
  resolveUnary(i);
}

PlainCalls::PlainCalls(bool onCpu) {
  // Whoever watches operators (a profiler) is told by the dispatcher alone.
  if (!onCpu || at::hasCallbacks()) return;
  const auto tls = c10::impl::tls_local_dispatch_key_set();
  const auto effective = ((ordinary | tls.included_) - tls.excluded_).remove(DispatchKey::ADInplaceOrView);
  if (effective == keys().add(DispatchKey::BackendSelect)) refused_ = 0;
}

}  // namespace graft
