"""An optimizer's state follows the names of its parameters, or is refused."""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn
from training import parameter, refusal, step, through_file, two_groups

import datacursor as dc
from datacursor.recovery import OptimizerState, digest_tree

Named = list[tuple[str, nn.Parameter]]
SGD, Adam = torch.optim.SGD, torch.optim.Adam

# Optimizers and the options that choose an implementation, as far as a CPU has them.
IMPLEMENTATIONS = [
    pytest.param(cls, options, id="-".join([cls.__name__, *options]))
    for cls, names in {
        torch.optim.SGD: ("foreach", "fused"),
        torch.optim.Adam: ("foreach", "fused", "amsgrad"),
        torch.optim.AdamW: ("foreach", "fused"),
        torch.optim.Adagrad: ("foreach", "fused"),
        torch.optim.RMSprop: ("foreach", "centered", "momentum"),
    }.items()
    for options in ({}, *({name: True} for name in names))
]


def state_of(optimizer: torch.optim.Optimizer, named: Named, **options: Any) -> OptimizerState:
    return OptimizerState(optimizer, named, **options)


def two(a: float = 1.0, c: float = 10.0) -> Named:
    return [("a", parameter([a])), ("c", parameter([c]))]


def values(named: Named) -> dict[str, float]:
    return {name: round(one.item(), 5) for name, one in named}


# -- right values


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize(
    ("is_restored", "theta", "b"), [(True, 7 / 8, 5 / 2), (False, 9 / 8, 3 / 2)]
)
def test_momentum_decides_the_next_value(
    dtype: torch.dtype, is_restored: bool, theta: float, b: float
) -> None:
    def make(value: float) -> tuple[nn.Parameter, OptimizerState]:
        one = parameter(value, dtype=dtype)
        return one, OptimizerState(SGD([one], lr=0.25, momentum=0.5), [("theta", one)])

    one, state = make(2.0)
    step(state.optimizer, (one, 2.0))
    assert one.item() == 3 / 2
    other, restored = make(one.item())
    if is_restored:
        restored.load_state_dict(through_file(state.state_dict()))
    step(restored.optimizer, (other, other.item()))
    assert other.item() == theta
    assert restored.optimizer.state[other]["momentum_buffer"].item() == b


@pytest.mark.parametrize(("is_restored", "expected"), [(True, 0.72), (False, 0.81)])
def test_equal_parameters_go_on_differently(is_restored: bool, expected: float) -> None:
    one = parameter(1.0)
    state = OptimizerState(SGD([one], lr=0.1, momentum=0.9), [("theta", one)])
    step(state.optimizer, (one, 1.0))
    other = parameter(one.item())
    restored = OptimizerState(SGD([other], lr=0.1, momentum=0.9), [("theta", other)])
    if is_restored:
        restored.load_state_dict(state.state_dict())
    step(restored.optimizer, (other, other.item()))
    assert other.item() == pytest.approx(expected)


@pytest.mark.parametrize(("has_buffer", "expected"), [(False, 0.9), (True, 0.95)])
def test_a_buffer_of_zero_is_not_a_missing_one(has_buffer: bool, expected: float) -> None:
    def make() -> tuple[nn.Parameter, OptimizerState]:
        one = parameter(1.0)
        optimizer = SGD([one], lr=0.1, momentum=0.9, dampening=0.5)
        return one, OptimizerState(optimizer, [("theta", one)])

    one, state = make()
    if has_buffer:
        state.optimizer.state[one]["momentum_buffer"] = torch.tensor(0.0)
    other, restored = make()
    restored.load_state_dict(through_file(state.state_dict()))
    step(restored.optimizer, (other, 1.0))
    assert other.item() == pytest.approx(expected)


@pytest.mark.parametrize(
    ("lost", "expected"),
    [(None, 0.64758), ("step", 0.59357), ("exp_avg", 0.71620), ("exp_avg_sq", 0.03260)],
)
def test_each_part_of_adam_decides_the_next_value(lost: str | None, expected: float) -> None:
    one = parameter(1.0)
    state = OptimizerState(Adam([one], lr=0.1), [("theta", one)])
    for gradient in (1.0, 0.5, 0.25):
        step(state.optimizer, (one, gradient))
    other = parameter(one.item())
    restored = OptimizerState(Adam([other], lr=0.1), [("theta", other)])
    restored.load_state_dict(through_file(state.state_dict()))
    if lost is not None:
        restored.optimizer.state[other][lost].zero_()
    step(restored.optimizer, (other, 0.125))
    assert other.item() == pytest.approx(expected, abs=5e-6)


def test_a_state_saved_before_the_first_step_is_empty() -> None:
    one, other = parameter(1.0), parameter(1.0)
    saved = OptimizerState(Adam([one]), [("theta", one)]).state_dict()
    restored = OptimizerState(Adam([other]), [("theta", other)])
    restored.load_state_dict(through_file(saved))
    step(restored.optimizer, (other, 1.0))
    assert restored.optimizer.state[other]["step"].item() == 1


# -- association


def test_state_follows_names_through_a_new_order() -> None:
    named = two()
    optimizer = SGD([one for _, one in named], lr=0.1, momentum=0.5)
    for value, (_, one) in zip((2.0, 20.0), named, strict=True):
        optimizer.state[one]["momentum_buffer"] = torch.tensor([value])
    saved = through_file(OptimizerState(optimizer, named).state_dict())
    fresh = two()
    turned = SGD([one for _, one in reversed(fresh)], lr=0.1, momentum=0.5)
    OptimizerState(turned, fresh).load_state_dict(saved)
    step(turned, *((one, 1.0) for _, one in fresh))
    assert values(fresh) == {"a": 0.8, "c": 8.9}
    buffers = [turned.state[one]["momentum_buffer"].item() for _, one in fresh]
    assert buffers == [2.0, 11.0]


def test_d24_optimizer_by_name() -> None:
    def make(order: str) -> tuple[dict[str, nn.Parameter], OptimizerState]:
        named = {name: parameter([[0.0] * 4] * 4) for name in order}
        return named, OptimizerState(Adam(list(named.values())), list(named.items()))

    named, state = make("ab")
    step(state.optimizer, *((one, 1.0) for one in named.values()))
    for value, name in enumerate("ab", 1):
        state.optimizer.state[named[name]]["exp_avg"].fill_(value)
    saved = through_file(state.state_dict())
    turned, restored = make("ba")
    restored.load_state_dict(saved)
    for value, name in enumerate("ab", 1):
        moment = restored.optimizer.state[turned[name]]["exp_avg"]
        assert torch.equal(moment, torch.full((4, 4), float(value)))
    other = make("ac")[1]
    with refusal(dc.AssociationError, "'c' missing", "'b' unexpected"):
        other.load_state_dict(saved)
    assert not other.optimizer.state


@pytest.mark.parametrize(("cls", "options"), IMPLEMENTATIONS)
def test_every_implementation_goes_on_bitwise_in_another_order(
    cls: Callable[..., torch.optim.Optimizer], options: dict[str, bool]
) -> None:
    def make(*, turn: bool) -> tuple[nn.Module, OptimizerState]:
        torch.manual_seed(0)
        model = nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 3))
        order = reversed if turn else list

        def build(groups: Any) -> torch.optim.Optimizer:
            turned = [group | {"params": list(order(group["params"]))} for group in groups]
            return cls(turned, lr=0.01, **options)

        return model, OptimizerState(two_groups(model, build), model.named_parameters())

    def train(model: nn.Module, optimizer: torch.optim.Optimizer, numbers: range) -> None:
        for number in numbers:
            model(torch.full((2, 3), number / 10)).square().sum().backward()
            optimizer.step()
            optimizer.zero_grad()

    model, state = make(turn=False)
    train(model, state.optimizer, range(3))
    saved, weights = through_file(state.state_dict()), copy.deepcopy(model.state_dict())
    other, restored = make(turn=True)
    train(other, restored.optimizer, range(7))  # of another life
    other.load_state_dict(weights)
    restored.load_state_dict(saved)
    before = digest_tree(saved)
    train(model, state.optimizer, range(3, 6))
    train(other, restored.optimizer, range(3, 6))
    assert digest_tree(other.state_dict()) == digest_tree(model.state_dict())
    assert digest_tree(restored.state_dict()["state"]) == digest_tree(state.state_dict()["state"])
    assert digest_tree(saved) == before  # the restored run trains on copies


def all_optimizers() -> list[type[torch.optim.Optimizer]]:
    classes = [getattr(torch.optim, name) for name in torch.optim.__all__]
    return [
        cls
        for cls in classes
        if inspect.isclass(cls) and issubclass(cls, torch.optim.Optimizer)
        if cls is not torch.optim.Optimizer
    ]


@pytest.mark.parametrize("cls", all_optimizers(), ids=lambda cls: cls.__name__)
def test_every_optimizer_of_torch_goes_on_bitwise(
    cls: Callable[..., torch.optim.Optimizer],
) -> None:
    def make() -> tuple[Named, OptimizerState]:
        named = [(name, parameter([[1.0, 2.0], [3.0, 4.0]])) for name in "ab"]
        return named, OptimizerState(cls([one for _, one in named], lr=0.01), named)

    def train(named: Named, optimizer: torch.optim.Optimizer) -> None:
        def closure() -> float:
            optimizer.zero_grad()
            loss = sum(((one - number).square().sum() for number, (_, one) in enumerate(named)))
            assert isinstance(loss, torch.Tensor)
            torch.autograd.backward(loss)
            if cls is torch.optim.SparseAdam:
                for _, one in named:
                    assert one.grad is not None
                    one.grad = one.grad.to_sparse()
            return loss.item()

        for _ in range(2):
            optimizer.step(closure)

    named, state = make()
    train(named, state.optimizer)
    saved = through_file(state.state_dict())
    other, restored = make()
    for (_, new), (_, old) in zip(other, named, strict=True):
        new.data.copy_(old.data)
    restored.load_state_dict(saved)
    assert digest_tree(restored.state_dict()) == digest_tree(saved)
    train(named, state.optimizer)
    train(other, restored.optimizer)
    assert digest_tree(restored.state_dict()) == digest_tree(state.state_dict())
    assert digest_tree([one for _, one in other]) == digest_tree([one for _, one in named])


def test_state_that_belongs_to_no_parameter_is_copied_too() -> None:
    def make(value: float) -> tuple[dict[Any, Any], OptimizerState]:
        named = two()
        optimizer = SGD([one for _, one in named], lr=0.1)
        state: dict[Any, Any] = optimizer.state
        state["all"] = {"norm": torch.tensor(value)}
        return state, OptimizerState(optimizer, named)

    saved = make(3.0)[1].state_dict()
    _, restored = make(4.0)
    restored.load_state_dict(saved)
    state: dict[Any, Any] = restored.optimizer.state
    assert state["all"]["norm"].item() == 3.0
    state["all"]["norm"].zero_()
    assert saved["shared"]["all"]["norm"].item() == 3.0


def test_lbfgs_cannot_change_its_order() -> None:
    named = two()
    saved = OptimizerState(torch.optim.LBFGS([one for _, one in named]), named).state_dict()
    turned = torch.optim.LBFGS([one for _, one in reversed(named)])
    with refusal(dc.AssociationError, "['a', 'c']", "['c', 'a']"):
        OptimizerState(turned, named).load_state_dict(saved)


def test_renamed_parameters_are_found_and_reported() -> None:
    named = two()
    state = OptimizerState(Adam([one for _, one in named]), named)
    step(state.optimizer, (named[0][1], 1.0), (named[1][1], 2.0))
    saved = state.state_dict()
    fresh = [(f"model.{name}", one) for name, one in two()]
    for rename in ({"a": "model.a", "c": "model.c"}, lambda name: f"model.{name}"):
        restored = OptimizerState(Adam([one for _, one in fresh]), fresh, rename=rename)
        restored.load_state_dict(saved)
        assert restored.renamed(saved) == {"a": "model.a", "c": "model.c"}
        for (_, old), (_, new) in zip(named, fresh, strict=True):
            moments = [
                one.state[p]["exp_avg"]
                for one, p in ((state.optimizer, old), (restored.optimizer, new))
            ]
            assert torch.equal(*moments)
    clash = OptimizerState(Adam([one for _, one in fresh]), fresh, rename=lambda _: "model.a")
    with refusal(dc.AssociationError, "'model.a'"):
        clash.load_state_dict(saved)


def test_names_of_the_optimizer_itself_are_read_before_a_load_can_replace_them() -> None:
    named = two()
    optimizer = SGD(named, lr=0.1, momentum=0.5)
    step(optimizer, (named[0][1], 1.0), (named[1][1], 2.0))
    state = OptimizerState(optimizer)
    foreign = copy.deepcopy(optimizer.state_dict())
    foreign["param_groups"][0]["param_names"] = ["c", "a"]
    optimizer.load_state_dict(foreign)
    assert state.state_dict()["groups"][0]["names"] == ["a", "c"]
    state.load_state_dict(state.state_dict())
    assert optimizer.param_groups[0]["param_names"] == ["a", "c"]


def test_a_restored_optimizer_without_names_takes_further_groups() -> None:
    named = two()
    state = OptimizerState(SGD([named[0][1]], lr=0.1), named)
    state.load_state_dict(state.state_dict())
    state.optimizer.add_param_group({"params": [named[1][1]]})
    assert [group["names"] for group in state.state_dict()["groups"]] == [["a"], ["c"]]


def test_a_tied_parameter_goes_by_its_first_name() -> None:
    model = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2))
    model[1].weight = model[0].weight
    optimizer = SGD(model.parameters(), lr=0.1)
    named = model.named_parameters(remove_duplicate=False)
    names = OptimizerState(optimizer, named).state_dict()["groups"][0]["names"]
    assert names == ["0.weight", "0.bias", "1.bias"]


def test_unnamed_and_doubly_named_parameters_are_refused() -> None:
    named = two()
    optimizer = SGD([one for _, one in named], lr=0.1)
    with refusal(dc.AssociationError, "parameter 0 of group 0", "has no name"):
        OptimizerState(optimizer).state_dict()
    with refusal(dc.AssociationError, "parameter 1 of group 0"):
        OptimizerState(optimizer, named[:1]).state_dict()
    with refusal(dc.AssociationError, "'a'"):
        OptimizerState(optimizer, [("a", one) for _, one in named])


# -- precision


def test_moments_keep_the_precision_they_were_saved_in() -> None:
    named = [("w", parameter([1.0, 2.0], dtype=torch.bfloat16))]
    optimizer = Adam([named[0][1]])
    optimizer.state[named[0][1]] = {
        "step": torch.tensor(3.0),
        "exp_avg": torch.tensor([1.2345678, -0.0]),
        "exp_avg_sq": torch.tensor([float("nan"), 1e-30]),
    }
    saved = OptimizerState(optimizer, named).state_dict()
    fresh = [("w", parameter([1.0, 2.0], dtype=torch.bfloat16))]
    restored = OptimizerState(Adam([fresh[0][1]]), fresh)
    restored.load_state_dict(through_file(saved))
    moment = restored.optimizer.state[fresh[0][1]]["exp_avg"]
    assert moment.dtype == torch.float32
    assert moment[0].item() == torch.tensor(1.2345678).item()
    assert digest_tree(restored.state_dict()) == digest_tree(saved)
    plain = Adam([fresh[0][1]])
    plain.load_state_dict(optimizer.state_dict())
    assert plain.state[fresh[0][1]]["exp_avg"].dtype == torch.bfloat16  # what torch does


def master_weights() -> tuple[Named, Named, OptimizerState]:
    model = [("w", parameter([1.0, 3.0], dtype=torch.bfloat16))]
    masters = [(name, nn.Parameter(one.detach().float())) for name, one in model]
    return model, masters, OptimizerState(SGD(masters, lr=0.1, momentum=0.5), model)


def test_master_weights_are_saved_with_the_optimizer() -> None:
    _, masters, state = master_weights()
    step(state.optimizer, (masters[0][1], 0.001))
    _, fresh, restored = master_weights()
    restored.load_state_dict(through_file(state.state_dict()))
    assert digest_tree(fresh[0][1]) == digest_tree(masters[0][1])
    assert fresh[0][1][0].item() == pytest.approx(0.9999)


@pytest.mark.parametrize("run_has_them", [False, True])
def test_master_weights_on_one_side_are_refused(run_has_them: bool) -> None:
    model, _, with_masters = master_weights()
    without = OptimizerState(SGD([model[0][1]], lr=0.1, momentum=0.5), model)
    first, second = (without, with_masters) if run_has_them else (with_masters, without)
    saved, present = ("none", "'w'") if run_has_them else ("'w'", "none")
    with refusal(
        dc.PrecisionError, "master weights", f"in checkpoint: {saved}", f"in the run:    {present}"
    ):
        second.load_state_dict(first.state_dict())


# -- refusals


Change = Callable[[dict[str, Any]], object]


def lose_moment(saved: dict[str, Any]) -> None:
    del saved["state"]["a"]["exp_avg"]


def cast_moment(saved: dict[str, Any]) -> None:
    saved["state"]["a"]["exp_avg"] = saved["state"]["a"]["exp_avg"].half()


def reshape_moment(saved: dict[str, Any]) -> None:
    saved["state"]["a"]["exp_avg"] = torch.zeros(3)


def name_twice(saved: dict[str, Any]) -> None:
    saved["groups"][0]["names"][1] = "a"


CHANGES: list[tuple[Change, type[Exception], tuple[str, ...]]] = [
    (lose_moment, dc.CheckpointError, ("'exp_avg'", "parameter 'a'")),
    (cast_moment, dc.PrecisionError, ("exp_avg", "float32", "float16")),
    (reshape_moment, dc.AssociationError, ("exp_avg", "[1]", "[3]")),
    (name_twice, dc.AssociationError, ("'a'", "twice")),
    (lambda saved: saved["state"].pop("a"), dc.CheckpointError, ("parameter 'a'",)),
    (lambda saved: saved["parameters"].pop("a"), dc.CheckpointError, ("schema", "'a'")),
    (lambda saved: saved.pop("masters"), dc.CheckpointError, ("'masters'",)),
    (lambda saved: saved.update(version=2), dc.CheckpointError, ("version 2", "version 1")),
    (
        lambda saved: saved["groups"].append({"names": [], "options": {}}),
        dc.AssociationError,
        ("2", "1"),
    ),
    (
        lambda saved: saved["groups"][0]["options"].pop("eps"),
        dc.OptionError,
        ("'eps'", "absent", "1e-08"),
    ),
]


def trained_adam(**options: Any) -> tuple[Named, OptimizerState]:
    named = two()
    state = OptimizerState(Adam([one for _, one in named], **options), named)
    step(state.optimizer, (named[0][1], 1.0), (named[1][1], 2.0))
    return named, state


@pytest.mark.parametrize(("change", "error", "words"), CHANGES)
def test_a_damaged_state_is_refused(
    change: Change, error: type[Exception], words: tuple[str, ...]
) -> None:
    saved = through_file(trained_adam()[1].state_dict())
    change(saved)
    require_refusal(trained_adam()[1], saved, error, *words)


def require_refusal(state: OptimizerState, saved: Any, error: type[Exception], *words: str) -> None:
    before = digest_tree(state.state_dict())
    with refusal(error, *words):
        state.load_state_dict(saved)
    assert digest_tree(state.state_dict()) == before


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"lr": 0.5}, ("'lr'", "0.001", "0.5")),
        ({"weight_decay": 0.25}, ("'weight_decay'", "0.25")),
        ({"betas": (0.5, 0.999)}, ("'betas'", "(0.9, 0.999)", "(0.5, 0.999)")),
        ({"foreach": False}, ("'foreach'", "None", "False")),
        ({"fused": True}, ("'fused'", "None", "True")),
        ({"amsgrad": True}, ("'amsgrad'", "False", "True")),
        ({"lr": torch.tensor(0.001)}, ("'lr'", "0.001", "tensor(0.0010)")),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
)
def test_another_option_is_refused(options: dict[str, Any], words: tuple[str, ...]) -> None:
    saved = through_file(trained_adam()[1].state_dict())
    require_refusal(trained_adam(**options)[1], saved, dc.OptionError, *words)


def test_an_accepted_option_is_the_runs() -> None:
    saved = through_file(trained_adam()[1].state_dict())
    named, other = trained_adam(weight_decay=0.25)
    state = OptimizerState(other.optimizer, named, allow_changed={"weight_decay"})
    state.load_state_dict(saved)
    assert state.accepted == {"weight_decay"}
    assert other.optimizer.param_groups[0]["weight_decay"] == 0.25
    state.load_state_dict(state.state_dict())
    assert state.accepted == frozenset()


def test_capturable_is_an_option_like_any_other() -> None:
    named = two()
    saved = OptimizerState(Adam([one for _, one in named], capturable=True), named).state_dict()
    require_refusal(trained_adam()[1], saved, dc.OptionError, "'capturable'", "True", "False")


def test_another_optimizer_is_refused() -> None:
    named = two()
    saved = OptimizerState(torch.optim.AdamW([one for _, one in named]), named).state_dict()
    require_refusal(trained_adam()[1], saved, dc.OptionError, "torch.AdamW", "torch.Adam")


def test_another_group_is_refused() -> None:
    def make(*groups: str) -> OptimizerState:
        named = {name: parameter([1.0]) for name in "abc"}
        optimizer = SGD([{"params": [named[name] for name in group]} for group in groups], lr=0.1)
        return OptimizerState(optimizer, list(named.items()))

    saved = make("ab", "c").state_dict()
    require_refusal(
        make("a", "cb"), saved, dc.AssociationError, "'b'", "checkpoint: 0", "run:    1"
    )
    require_refusal(make("abc"), saved, dc.AssociationError, "groups", "2", "1")


@pytest.mark.parametrize(
    ("change", "error", "words"),
    [
        ({"value": [1.0, 2.0]}, dc.AssociationError, ("(1,)", "(2,)")),
        ({"value": [1.0], "dtype": torch.float64}, dc.PrecisionError, ("float32", "float64")),
    ],
)
def test_another_parameter_is_refused(
    change: dict[str, Any], error: type[Exception], words: tuple[str, ...]
) -> None:
    saved = trained_adam()[1].state_dict()
    named = [("a", parameter(**change)), ("c", parameter([10.0]))]
    state = OptimizerState(Adam([one for _, one in named]), named)
    require_refusal(state, saved, error, "parameter 'a'", *words)


def test_a_moment_of_another_dtype_in_the_run_is_refused() -> None:
    saved = trained_adam()[1].state_dict()
    named, state = trained_adam()
    moments = state.optimizer.state[named[0][1]]
    moments["exp_avg"] = moments["exp_avg"].double()
    require_refusal(state, saved, dc.PrecisionError, "exp_avg", "float32", "float64")


def test_a_driven_option_is_the_saved_one() -> None:
    state = trained_adam()[1]
    torch.optim.lr_scheduler.StepLR(state.optimizer, 1, 0.5)
    state.optimizer.param_groups[0]["lr"] = 0.25
    saved = state.state_dict()
    other = trained_adam()[1]
    torch.optim.lr_scheduler.StepLR(other.optimizer, 1, 0.5)
    other.load_state_dict(saved)
    assert other.optimizer.param_groups[0]["lr"] == 0.25
    assert other.accepted == frozenset()


def test_a_learning_rate_in_a_tensor_stays_in_it() -> None:
    def make() -> tuple[torch.Tensor, OptimizerState]:
        rate = torch.tensor(0.5)
        named = two()
        optimizer = Adam([one for _, one in named], lr=rate, foreach=False)
        torch.optim.lr_scheduler.StepLR(optimizer, 1, 0.5)
        return rate, OptimizerState(optimizer, named)

    rate, state = make()
    rate.fill_(0.125)
    other_rate, restored = make()
    restored.load_state_dict(through_file(state.state_dict()))
    assert restored.optimizer.param_groups[0]["lr"] is other_rate
    assert other_rate.item() == 0.125


def test_names_to_accept_are_no_string() -> None:
    with refusal(TypeError, "'lr'"):
        OptimizerState(trained_adam()[1].optimizer, allow_changed="lr")
