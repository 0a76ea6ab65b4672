from __future__ import annotations

import numpy as np
import pytest
import torch

from judgement_env.bots.inputs import (
    CRITIC_SIZE,
    INPUT_SIZE,
    MAX_NONZERO,
)
from judgement_env.cards import NUM_ACTIONS
from judgement_env.state import Array
from training.model import (
    Network,
    dense_inputs,
    load_weights,
    make_actor,
    make_critic,
)

Inputs = tuple[Array, Array, Array]
# Repeated and out of order, with an empty row (3) among them.
ROWS = np.array([4, 0, 4, 3, 2, 4, 1])


def random_inputs(num_rows: int = 5, inputs: int = 61) -> Inputs:
    rng = np.random.default_rng(4)
    column = np.zeros((num_rows, MAX_NONZERO), np.uint16)
    value = np.zeros((num_rows, MAX_NONZERO), np.float32)
    count = np.array([1, 4, 7, 0, 30], np.int32)[:num_rows]
    for row, size in enumerate(count):
        column[row, :size] = rng.choice(inputs, size, replace=False)
        value[row, :size] = rng.normal(size=size)
    return column, value, count


def in_full(column: Array, value: Array, count: Array, rows: Array, inputs: int = 61) -> Array:
    out = np.zeros((len(rows), inputs), np.float32)
    for b, row in enumerate(rows):
        for j in range(count[row]):
            out[b, column[row, j]] = value[row, j]
    return out


def test_dense_inputs_are_the_sparse_ones_in_full() -> None:
    column, value, count = random_inputs()
    out = np.zeros((len(ROWS), 61), np.float32)
    dense_inputs(column, value, count, ROWS, out)
    assert (out == in_full(column, value, count, ROWS)).all()
    assert not out[3].any()


def test_a_network_on_chosen_rows_equals_a_plain_perceptron() -> None:
    torch.manual_seed(0)
    inputs = random_inputs()
    network = Network(61, (8, 6), 3, 1.0)
    x = torch.from_numpy(in_full(*inputs, ROWS))
    for k, layer in enumerate(network.stack()):
        x = (torch.relu(x) if k else x) @ layer.weight + layer.bias
    out = network(*inputs, ROWS)
    assert out.shape == (7, 3)
    assert torch.allclose(out, x, atol=1e-5)
    # The same row, in other lanes of the matrix product.
    assert torch.allclose(out[0], out[2], atol=1e-6)
    assert torch.allclose(out[0], out[5], atol=1e-6)


def test_gradients_of_a_network_equal_those_of_a_plain_perceptron() -> None:
    torch.manual_seed(0)
    inputs = random_inputs()
    network = Network(61, (8,), 2, 1.0)
    parameters = list(network.parameters())
    mine = torch.autograd.grad(network(*inputs, ROWS).square().sum(), parameters)
    first, last = network.stack()
    x = torch.from_numpy(in_full(*inputs, ROWS))
    plain = torch.relu(x @ first.weight + first.bias) @ last.weight + last.bias
    for got, expected in zip(
        mine, torch.autograd.grad(plain.square().sum(), parameters), strict=True
    ):
        assert torch.allclose(got, expected, atol=1e-4)


def test_a_new_actor_is_nearly_uniform_and_a_critic_has_one_value() -> None:
    torch.manual_seed(0)
    actor, critic = make_actor((32, 16)), make_critic((8,))
    column, value, count = random_inputs(inputs=INPUT_SIZE)
    logits = actor(column, value, count, np.arange(5))
    assert logits.shape == (5, NUM_ACTIONS)
    assert float(logits.detach().abs().max()) < 0.2
    assert critic(column, value, count, np.arange(5)).shape == (5, 1)
    assert actor.stack()[0].weight.shape == (INPUT_SIZE, 32)
    assert critic.stack()[0].weight.shape == (CRITIC_SIZE, 8)


def test_weights_of_another_shape_are_refused_by_name() -> None:
    network, other = Network(61, (8,), 3, 1.0), Network(60, (8,), 3, 1.0)
    words = r"runs/x: actor: layers.0.weight has shape \(60, 8\) in the checkpoint, \(61, 8\) here"
    with pytest.raises(ValueError, match=words):
        load_weights(network, other.state_dict(), "runs/x: actor")
    deeper = Network(61, (8, 8), 3, 1.0)
    with pytest.raises(ValueError, match="layers.1.bias has shape"):
        load_weights(network, deeper.state_dict(), "runs/x: actor")
    load_weights(network, Network(61, (8,), 3, 2.0).state_dict(), "runs/x: actor")
