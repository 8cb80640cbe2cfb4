// Operators that make tensors, write in place or ask for properties, and the graph's own language.
#include "core/ir/operators/fact_lines.h"

namespace graft {
namespace fact_lines {

constexpr OperatorFacts others[] = {
    // Tensors from sizes
    {"aten.empty", Family::Factory, Shape::Unknown, DType::DefaultFloat, None},
    {"aten.eye", Family::Factory, Shape::Unknown, DType::DefaultFloat, None},
    {"aten.linspace", Family::Factory, Shape::Unknown, DType::DefaultFloat, None},
    {"aten.logspace", Family::Factory, Shape::Unknown, DType::DefaultFloat, None},
    {"aten.ones", Family::Factory, Shape::Unknown, DType::DefaultFloat, None},
    {"aten.zeros", Family::Factory, Shape::Unknown, DType::DefaultFloat, None},
    {"aten.rand", Family::Factory, Shape::Unknown, DType::DefaultFloat, Random},
    {"aten.randn", Family::Factory, Shape::Unknown, DType::DefaultFloat, Random},
    {"aten.arange", Family::Factory, Shape::Unknown, DType::Unknown, None},
    {"aten.full", Family::Factory, Shape::Unknown, DType::Unknown, None},
    {"aten.empty_like", Family::Factory, Shape::AsFirst, DType::First, None},
    {"aten.full_like", Family::Factory, Shape::AsFirst, DType::First, None},
    {"aten.ones_like", Family::Factory, Shape::AsFirst, DType::First, None},
    {"aten.zeros_like", Family::Factory, Shape::AsFirst, DType::First, None},
    {"aten.rand_like", Family::Factory, Shape::AsFirst, DType::First, Random},
    {"aten.randn_like", Family::Factory, Shape::AsFirst, DType::First, Random},
    {"aten.randint_like", Family::Factory, Shape::AsFirst, DType::First, Random},
    {"aten.new_empty", Family::Factory, Shape::Unknown, DType::First, None},
    {"aten.new_full", Family::Factory, Shape::Unknown, DType::First, None},
    {"aten.new_ones", Family::Factory, Shape::Unknown, DType::First, None},
    {"aten.new_zeros", Family::Factory, Shape::Unknown, DType::First, None},
    {"aten.randint", Family::Factory, Shape::Unknown, DType::Int64, Random},
    {"aten.randperm", Family::Factory, Shape::Unknown, DType::Int64, Random},
    {"aten.scalar_tensor", Family::Factory, Shape::Unknown, DType::Unknown, None},

    // Random numbers
    {"graft.random_states", Family::Factory, Shape::Unknown, DType::Int64, Random},
    {"graft.dropout_mask", Family::Factory, Shape::Unknown, DType::Unknown, None},
    {"aten.bernoulli", Family::Arithmetic, Shape::AsFirst, DType::First, Random},
    {"aten.binomial", Family::Arithmetic, Shape::Unknown, DType::Unknown, Random},
    {"aten.multinomial", Family::Arithmetic, Shape::Unknown, DType::Int64, Random},
    {"aten.normal", Family::Arithmetic, Shape::Unknown, DType::Unknown, Random},
    {"aten.poisson", Family::Arithmetic, Shape::AsFirst, DType::First, Random},
    {"aten.bernoulli_", Family::Factory, Shape::AsFirst, DType::First, Random | NoFunctionalForm},
    {"aten.cauchy_", Family::Factory, Shape::AsFirst, DType::First, Random | NoFunctionalForm},
    {"aten.exponential_", Family::Factory, Shape::AsFirst, DType::First, Random | NoFunctionalForm},
    {"aten.geometric_", Family::Factory, Shape::AsFirst, DType::First, Random | NoFunctionalForm},
    {"aten.log_normal_", Family::Factory, Shape::AsFirst, DType::First, Random | NoFunctionalForm},
    {"aten.normal_", Family::Factory, Shape::AsFirst, DType::First, Random | NoFunctionalForm},
    {"aten.random_", Family::Factory, Shape::AsFirst, DType::First, Random | NoFunctionalForm},
    {"aten.uniform_", Family::Factory, Shape::AsFirst, DType::First, Random | NoFunctionalForm},

    // In place only
    {"aten.copy_", Family::Shape, Shape::AsFirst, DType::First, NoFunctionalForm},
    {"aten.detach_", Family::Shape, Shape::AsFirst, DType::First, NoFunctionalForm},
    {"aten.fill_", Family::Shape, Shape::AsFirst, DType::First, NoFunctionalForm},
    {"aten.rename_", Family::Shape, Shape::AsFirst, DType::First, NoFunctionalForm},
    {"aten.requires_grad_", Family::Shape, Shape::AsFirst, DType::First, NoFunctionalForm},
    {"aten.zero_", Family::Shape, Shape::AsFirst, DType::First, NoFunctionalForm},
    {"aten.as_strided_", Family::Shape, Shape::Unknown, DType::First, ReshapesInPlace},
    {"aten.resize_", Family::Shape, Shape::Unknown, DType::First, ReshapesInPlace | NoFunctionalForm},
    {"aten.resize_as_", Family::Shape, Shape::Unknown, DType::First, ReshapesInPlace | NoFunctionalForm},
    {"aten.set_", Family::Shape, Shape::Unknown, DType::First, ReshapesInPlace | NoFunctionalForm},
    {"aten.squeeze_", Family::Shape, Shape::Unknown, DType::First, ReshapesInPlace},
    {"aten.swapaxes_", Family::Shape, Shape::Unknown, DType::First, ReshapesInPlace},
    {"aten.swapdims_", Family::Shape, Shape::Unknown, DType::First, ReshapesInPlace},
    {"aten.t_", Family::Shape, Shape::Unknown, DType::First, ReshapesInPlace},
    {"aten.transpose_", Family::Shape, Shape::Unknown, DType::First, ReshapesInPlace},
    {"aten.unsqueeze_", Family::Shape, Shape::Unknown, DType::First, ReshapesInPlace},

    // Sizes and other properties
    {"aten.dim", Family::Query, Shape::Unknown, DType::Unknown, MetadataOnly | AnyIntegers},
    {"aten.is_complex", Family::Query, Shape::Unknown, DType::Unknown, MetadataOnly},
    {"aten.is_floating_point", Family::Query, Shape::Unknown, DType::Unknown, MetadataOnly},
    {"aten.numel", Family::Query, Shape::Unknown, DType::Unknown, MetadataOnly},
    {"aten.size", Family::Query, Shape::Unknown, DType::Unknown, MetadataOnly | AnyIntegers},
    {"aten.storage_offset", Family::Query, Shape::Unknown, DType::Unknown, MetadataOnly},
    {"aten.stride", Family::Query, Shape::Unknown, DType::Unknown, MetadataOnly},
    {"aten.sym_numel", Family::Query, Shape::Unknown, DType::Unknown, MetadataOnly},
    {"aten.sym_size", Family::Query, Shape::Unknown, DType::Unknown, MetadataOnly},
    {"aten.sym_storage_offset", Family::Query, Shape::Unknown, DType::Unknown, MetadataOnly},
    {"aten.sym_stride", Family::Query, Shape::Unknown, DType::Unknown, MetadataOnly},

    // Effects that schemas do not show
    {"aten._assert_async", Family::Control, Shape::Unknown, DType::Unknown, SideEffects},
    {"aten._assert_scalar", Family::Control, Shape::Unknown, DType::Unknown, SideEffects | Guard},
    {"aten._assert_tensor_metadata", Family::Control, Shape::Unknown, DType::Unknown, Guard},
    {"aten.save", Family::Control, Shape::Unknown, DType::Unknown, SideEffects},
    {"aten.sym_constrain_range", Family::Control, Shape::Unknown, DType::Unknown, SideEffects | Guard},
    {"aten.sym_constrain_range_for_size", Family::Control, Shape::Unknown, DType::Unknown, Guard},
    {"aten.warn", Family::Control, Shape::Unknown, DType::Unknown, SideEffects},
    {"prim.Print", Family::Control, Shape::Unknown, DType::Unknown, SideEffects},
    {"prim.RaiseException", Family::Control, Shape::Unknown, DType::Unknown, SideEffects},

    // The graph's own language
    {"_operator.getitem", Family::Shape, Shape::Unknown, DType::Unknown, Structural},
    {"prim.Constant", Family::Shape, Shape::Unknown, DType::Unknown, Structural},
    {"prim.DictConstruct", Family::Shape, Shape::Unknown, DType::Unknown, Structural},
    {"prim.If", Family::Control, Shape::Unknown, DType::Unknown, Structural},
    {"prim.ListConstruct", Family::Shape, Shape::Unknown, DType::Unknown, Structural},
    {"prim.ListUnpack", Family::Shape, Shape::Unknown, DType::Unknown, Structural},
    {"prim.Loop", Family::Control, Shape::Unknown, DType::Unknown, Structural},
    {"prim.NumToTensor", Family::Shape, Shape::Unknown, DType::Unknown, Structural},
    {"prim.TupleConstruct", Family::Shape, Shape::Unknown, DType::Unknown, Structural},
    {"prim.TupleIndex", Family::Shape, Shape::Unknown, DType::Unknown, Structural},
    {"prim.TupleUnpack", Family::Shape, Shape::Unknown, DType::Unknown, Structural},
    {"prim.getitem", Family::Shape, Shape::Unknown, DType::Unknown, Structural},
};

}  // namespace fact_lines

std::span<const OperatorFacts> otherFacts() { return fact_lines::others; }

}  // namespace graft
