"""Gradients that a rule computes by its own `backward`: checked beside autograd's in fp64, then put in their place.

`graft apply --training` leaves `graft.own_gradient(results, inputs, gradients, rule, names)` in the graph. `graft.tangent(result)` stands
for the gradient of a result, and what is computed from it belongs to the backward pass.
"""

import operator

import torch
import torch.fx

TANGENT, OWN = "graft.tangent.default", "graft.own_gradient.default"
TOLERANCE = 1e-10  # relative, in fp64


class Place:
    """One rewrite whose rule has a `backward`."""

    def __init__(self, node):
        self.node = node
        results, inputs, gradients, self.rule, names = node.args
        listed = [(i, g, n) for i, g, n in zip(inputs, gradients, names) if isinstance(i, torch.fx.Node)]
        self.results = list(results)
        self.inputs, self.gradients, self.names = ([row[k] for row in listed] for k in range(3))
        order = {n: i for i, n in enumerate(node.graph.nodes)}
        # What depends on a tangent of a result, on the way to the gradients.
        self.tangents = [next((u for u in r.users if str(u.target) == TANGENT), None) for r in self.results]
        starts = {t for t in self.tangents if t is not None}
        behind = reach(starts, lambda n: n.users)
        ahead = reach(set(self.gradients), lambda n: n.all_input_nodes)
        self.backward = sorted((behind & ahead) - starts, key=order.get)
        # Between the inputs and the results, or what the gradients read: the forward pass.
        ends = set(self.results) | {a for n in self.backward for a in n.all_input_nodes} | set(self.gradients)
        inside = reach(set(self.inputs), lambda n: n.users) & reach(ends, lambda n: n.all_input_nodes)
        self.forward = sorted(inside - set(self.inputs) - starts - set(self.backward), key=order.get)
        self.extras = self.outside(self.backward, starts, self.gradients)

    @staticmethod
    def outside(nodes, known, ends=()):
        """What the nodes read that is neither among them nor known."""
        inside = set(nodes) | set(known)
        return list(dict.fromkeys(a for a in [*(a for n in nodes for a in n.all_input_nodes), *ends] if a not in inside))

    def leaves(self):
        """What the whole place reads beside its inputs."""
        known = {*self.inputs, *(t for t in self.tangents if t is not None)}
        return [a for a in self.outside([*self.forward, *self.backward], known, [*self.results, *self.gradients]) if a not in self.inputs]

    def function(self, nodes, takes, gives):
        """`nodes` as a function."""
        graph, values = torch.fx.Graph(), {}
        for n in takes:
            made = graph.placeholder(f"p{len(values)}")
            if n is not None:
                values[n] = made
            else:
                values[made] = made
        for n in nodes:
            values[n] = graph.node_copy(n, lambda old: values[old])
        graph.output(tuple(values[n] for n in gives))
        return torch.fx.GraphModule(self.node.graph.owning_module, graph)

    def check(self, values):
        """Its gradients beside those of autograd, in fp64 on the values that reach it; `values`: by node. Why they differ, or None;
        a ValueError where they cannot be computed so."""
        leaves = self.leaves()
        takes = [*self.inputs, *leaves]
        given = [wide(values[n]) for n in takes]
        for n, t in zip(takes, given):
            if isinstance(t, torch.Tensor) and t.is_floating_point():
                t.requires_grad_(n in self.inputs or values[n].requires_grad)
        wanted = [i for i, t in enumerate(given) if isinstance(t, torch.Tensor) and t.requires_grad]
        try:
            with torch.enable_grad():
                results = self.function(self.forward, takes, self.results)(*given)
            ends = [t for t in results if t.requires_grad]
            tangents = [torch.randn_like(t) for t in results]
            expected = torch.autograd.grad(ends, [given[i] for i in wanted], [t for r, t in zip(results, tangents) if r.requires_grad],
                                           allow_unused=True)
            with torch.no_grad():
                own = self.function([*self.forward, *self.backward], [*takes, *self.tangents], self.gradients)(*given, *tangents)
        except (RuntimeError, TypeError) as e:
            raise ValueError(str(e).strip().splitlines()[0]) from e
        for i, theirs in zip(wanted, expected):
            theirs = torch.zeros_like(given[i]) if theirs is None else theirs
            if i >= len(self.inputs):
                if bool((theirs != 0).any()):
                    return f"it gives no gradient of `{takes[i].name}`, on which the replacement depends"
                continue
            ours = own[i]
            if ours.shape != theirs.shape:
                return f"the gradient of `{self.names[i]}` has the shape {list(ours.shape)}, not {list(theirs.shape)}"
            tolerance = TOLERANCE if ours.dtype == theirs.dtype == torch.float64 else 1e-4
            scale, apart = float(theirs.abs().nan_to_num().max()), float((ours - theirs).abs().nan_to_num(posinf=0).max())
            if theirs.numel() and apart > tolerance * max(scale, 1e-6):
                return f"the gradient of `{self.names[i]}` is off by {apart:.3g} (largest value {scale:.3g})"
        return None

    def takes_over(self):
        """From here on autograd asks `backward`."""
        back = self.function(self.backward, [*self.tangents, *self.extras], self.gradients)
        shapes = len(self.results), len(self.inputs)

        def own_gradient(*tensors):
            return list(Own.apply(back, shapes, *tensors))

        graph = self.node.graph
        with graph.inserting_before(self.node):
            made = graph.call_function(own_gradient, (*self.results, *self.inputs, *self.extras))
        made.meta = dict(self.node.meta)
        self.node.replace_all_uses_with(made)
        graph.erase_node(self.node)

    def is_ignored(self):
        """Autograd differentiates the replacement."""
        for user in list(self.node.users):
            assert user.target is operator.getitem
            user.replace_all_uses_with(self.results[user.args[1]])
            self.node.graph.erase_node(user)
        self.node.graph.erase_node(self.node)


class Own(torch.autograd.Function):
    """The results as they are, whose gradients `back` computes."""

    @staticmethod
    def forward(ctx, back, shapes, *tensors):
        results, inputs = shapes
        ctx.back, ctx.shapes = back, shapes
        ctx.dtypes = [t.dtype for t in tensors[results:results + inputs]]
        extras = tensors[results + inputs:]
        ctx.save_for_backward(*[t for t in extras if isinstance(t, torch.Tensor)])
        ctx.others = [(isinstance(t, torch.Tensor), None if isinstance(t, torch.Tensor) else t) for t in extras]
        return tuple(t.view_as(t) for t in tensors[:results])

    @staticmethod
    def backward(ctx, *tangents):
        saved = iter(ctx.saved_tensors)
        extras = [next(saved) if is_saved else t for is_saved, t in ctx.others]
        gradients = ctx.back(*tangents, *extras)
        given = [g.to(d) for g, d in zip(gradients, ctx.dtypes)]
        return (None, None, *[None] * ctx.shapes[0], *given, *[None] * len(extras))


def reach(starts, next_of):
    found, todo = set(starts), list(starts)
    while todo:
        for n in next_of(todo.pop()):
            if n not in found:
                found.add(n)
                todo.append(n)
    return found


def wide(value):
    if not isinstance(value, torch.Tensor):
        return value
    return value.detach().double().clone() if value.is_floating_point() else value.detach().clone()


def settle(module, arguments, wrong):
    """Puts each `backward` that computes what autograd does in its place. `wrong(rule, why)` hears of those that do not, and of those
    that cannot be checked by themselves: autograd differentiates these rules' replacements. Returns how many are in place, by rule."""
    places = [Place(n) for n in module.graph.nodes if str(n.target) == OWN]
    if not places:
        return {}
    gpus = {v.device.index for v in arguments if isinstance(v, torch.Tensor) and v.device.type == "cuda"}
    with torch.enable_grad(), torch.random.fork_rng(devices=sorted(gpus)):
        torch.manual_seed(0)
        run = torch.fx.Interpreter(module, garbage_collect_values=False)
        run.run(*arguments, enable_io_processing=False)
        verdicts = []
        for p in places:
            try:
                verdicts.append(p.check(run.env))
            except ValueError as e:
                verdicts.append(f"it does not run in double precision: {e}")
    counts = {}
    for p, why in zip(places, verdicts):
        p = Place(p.node)  # what it reads may have changed
        if why is None:
            p.takes_over()
            counts[p.rule] = counts.get(p.rule, 0) + 1
        else:
            p.is_ignored()
            wrong(p.rule, why)
    module.graph.eliminate_dead_code()
    module.recompile()
    return counts
