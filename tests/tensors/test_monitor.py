"""The recipe of docs/monitor.md, run as it stands there on three kinds of tiny random models."""

import re
from typing import Any

import numpy as np
import pytest
from conftest import ROOT

torch: Any = None
transformers: Any = None


@pytest.fixture(autouse=True, scope="module")
def libraries() -> None:
    """Load both where a test needs them: in the collection, every process would."""
    global torch, transformers
    torch = pytest.importorskip("torch")
    transformers = pytest.importorskip("transformers")


SMALL = {
    "vocab_size": 40,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
}


def build(kind: str) -> Any:
    torch.manual_seed(0)
    if kind == "rotary, grouped":
        config = transformers.LlamaConfig(**SMALL)
        return transformers.LlamaForCausalLM(config)
    if kind == "fused":
        config = transformers.GPT2Config(
            vocab_size=40, n_embd=32, n_layer=2, n_head=4, n_positions=64,
            resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0,
        )  # fmt: skip
        return transformers.GPT2LMHeadModel(config)
    config = transformers.Qwen3Config(**SMALL, head_dim=8)
    return transformers.Qwen3ForCausalLM(config)


KINDS = ("rotary, grouped", "fused", "QK-norm")


def recipe() -> Any:
    page = (ROOT / "docs/monitor.md").read_text(encoding="utf-8")
    blocks = re.findall(r"```python\n(.*?)```", page, flags=re.DOTALL)
    names: dict[str, Any] = {}
    exec(blocks[0], names)
    return names["Monitor"]


def batch(step: int) -> Any:
    generator = torch.Generator().manual_seed(step)
    return torch.randint(0, 40, (3, 20), generator=generator)


def train(model: Any, steps: int, monitor: Any = None) -> list[float]:
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    losses = []
    model.train()
    for step in range(steps):
        tokens = batch(step)
        loss = model(input_ids=tokens, labels=tokens).loss
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item())
        if monitor is not None:
            monitor.after_step()
    return losses


@pytest.mark.parametrize("kind", KINDS)
def test_the_monitor_sees_what_the_layers_own_weights_say(kind: str) -> None:
    model = build(kind)
    monitor = recipe()(model, every=1, rows=100)
    model.train()
    tokens = batch(0)
    model(input_ids=tokens)
    seen = monitor.table()
    model.set_attn_implementation("eager")
    weights = model(input_ids=tokens, output_attentions=True).attentions
    assert len(seen) == 2 * 3 * 4
    for layer, of_layer in enumerate(weights):
        p = of_layer.detach().double().numpy()
        # Of rows that see two keys or more, as `measure` counts them.
        entropy = -np.sum(p * np.log(np.where(p > 0, p, 1)), axis=-1)[:, :, 1:].mean(axis=-1)
        own = seen[seen.layer == layer].sort_values(["batch", "head"])
        # float32 weights that were rounded once: 1e-7 each, times ln p, over 20 keys.
        assert own.entropy_nats.to_numpy() == pytest.approx(entropy.ravel(), abs=2e-5)
        assert own.max_weight.to_numpy() == pytest.approx(
            p.max(axis=-1)[:, :, 1:].mean(axis=-1).ravel(), abs=2e-5
        )


@pytest.mark.parametrize("kind", KINDS)
def test_training_takes_the_same_steps_with_the_monitor(kind: str) -> None:
    plain = build(kind)
    plain.set_attn_implementation("sdpa")
    watched = build(kind)
    monitor = recipe()(watched, every=3, rows=5)
    assert train(watched, 7, monitor) == train(plain, 7)
    seen = monitor.table()
    assert sorted(seen.step.unique()) == [0, 3, 6]
    assert len(seen) == 3 * 2 * 3 * 4
    assert np.isfinite(seen.logit_std).all()
