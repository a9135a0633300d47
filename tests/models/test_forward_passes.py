"""Forward passes of trained models, against other implementations of the same network."""

import hashlib

import numpy as np
import pytest

from sqrtdk.models import reactions
from sqrtdk.models.decoder import Decoder
from sqrtdk.models.encoder import Activations, albert, bert
from sqrtdk.models.gguf_file import Vocabulary
from sqrtdk.tensors.measurement import measure

SIZES = {
    "vocab_size": 50,
    "hidden_size": 24,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "intermediate_size": 40,
    "max_position_embeddings": 32,
}
TOKENS = np.array([3, 7, 7, 49, 0, 12, 30])


def agree(found: Activations, model: object, *, depth: str) -> None:
    """Hold hidden states and the q, k, v of every layer against a PyTorch model in float64."""
    torch = pytest.importorskip("torch")
    seen: dict[str, list[np.ndarray]] = {"query": [], "key": [], "value": []}
    for name, module in model.named_modules():
        kind = name.rpartition(".")[2]
        if kind in seen:
            module.register_forward_hook(
                lambda _m, _i, out, kind=kind: seen[kind].append(out[0].detach().numpy())
            )
    with torch.no_grad():
        hidden = model(torch.tensor(TOKENS)[None]).last_hidden_state[0].numpy()
    # Both are float64: what is left is the order of sums, over some thousand additions.
    assert found.hidden == pytest.approx(hidden, abs=1e-12)
    for kind, ours in (("query", found.q), ("key", found.k), ("value", found.v)):
        assert len(ours) == len(seen[kind]) == SIZES["num_hidden_layers"], depth
        for layer, theirs in zip(ours, seen[kind], strict=True):
            joined = np.swapaxes(layer, 0, 1).reshape(len(TOKENS), -1)
            assert joined == pytest.approx(theirs, abs=1e-12)


def shaken(model: object) -> dict[str, np.ndarray]:
    """Give every weight and bias a random value, and return them by name in float64."""
    torch = pytest.importorskip("torch")
    torch.manual_seed(0)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(torch.randn_like(parameter) / 2)
    return {name: x.numpy() for name, x in model.double().eval().state_dict().items()}


def test_a_bert_has_the_activations_of_transformers() -> None:
    transformers = pytest.importorskip("transformers")
    config = transformers.BertConfig(**SIZES, hidden_act="gelu")
    model = transformers.BertModel(config, add_pooling_layer=False)
    tensors = shaken(model)
    agree(bert(tensors, 3, 4).forward(TOKENS), model, depth="layers")


@pytest.mark.parametrize("activation", ["gelu", "gelu_new"])
def test_an_albert_has_the_activations_of_transformers(activation: str) -> None:
    transformers = pytest.importorskip("transformers")
    config = transformers.AlbertConfig(**SIZES, embedding_size=16, hidden_act=activation)
    model = transformers.AlbertModel(config, add_pooling_layer=False)
    tensors = shaken(model)
    found = albert(tensors, 3, 4, tanh_gelu=activation == "gelu_new").forward(TOKENS)
    agree(found, model, depth="shared layers")


def test_the_fixture_is_the_one_that_was_measured() -> None:
    digest = hashlib.sha256(reactions.WEIGHTS.read_bytes()).hexdigest()
    assert digest == "f278aa1ef2feda82b25d89209910d534346e0ad02f9ce5b39465f34b1d3aad09"


def test_reactions_are_split_into_tokens_of_the_vocabulary() -> None:
    _, vocabulary = reactions._fixture()
    for reaction in reactions.REACTIONS.values():
        words = reactions.tokens(reaction)
        assert "".join(words[1:-1]) == reaction
        assert set(words) <= vocabulary.keys()
    with pytest.raises(ValueError, match="'C!C' is not a reaction in SMILES"):
        reactions.tokens("C!C")


def test_the_mapping_head_maps_what_a_chemist_would() -> None:
    # The acid keeps its carbonyl and the alcohol its oxygen: the ester's bridging oxygen (place
    # 19) is one of the two hydroxyl oxygens, its ethyl group is that of the alcohol.
    words = reactions.tokens(reactions.REACTIONS["esterification"])
    found = dict(
        zip(
            *(x.tolist() for x in reactions.map_atoms(reactions.REACTIONS["esterification"])),
            strict=True,
        )
    )
    assert [words[found[place]] for place in found] == [words[place] for place in found]
    assert len(set(found.values())) == len(found)
    assert [found[place] for place in (20, 21)] == [10, 11]


def test_without_scaling_most_of_the_mapping_is_lost() -> None:
    kept = total = 0
    for reaction in reactions.REACTIONS.values():
        own = reactions.map_atoms(reaction).reactant
        unscaled = reactions.map_atoms(reaction, temperature=32**0.5).reactant
        kept, total = kept + int(np.sum(own == unscaled)), total + len(own)
    assert total == 70
    # Measured: 20. Rounding moves none of them; a wrong scale would keep all or nearly none.
    assert kept < total / 2


def test_its_heads_are_sharper_than_unrelated_vectors() -> None:
    found = reactions.forward(reactions.REACTIONS["amide coupling"])
    tables = [measure(q, k) for q, k in zip(found.q, found.k, strict=True)]
    spread = np.concatenate([table.logit_std for table in tables])
    assert len(spread) == 12 * 8
    assert np.median(spread) > 2


GEMMA_NAMES = {
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "self_attn.q_norm": "attn_q_norm",
    "self_attn.k_norm": "attn_k_norm",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
    "input_layernorm": "attn_norm",
    "post_attention_layernorm": "post_attention_norm",
    "pre_feedforward_layernorm": "ffn_norm",
    "post_feedforward_layernorm": "post_ffw_norm",
}


def test_a_gemma_has_the_loss_and_the_weights_of_transformers() -> None:
    torch = pytest.importorskip("torch")
    transformers = pytest.importorskip("transformers")
    config = transformers.Gemma3TextConfig(
        vocab_size=50, hidden_size=24, intermediate_size=40, num_hidden_layers=7,
        num_attention_heads=4, num_key_value_heads=2, head_dim=8, query_pre_attn_scalar=8,
        sliding_window=5, attn_implementation="eager",
    )  # fmt: skip
    model = transformers.Gemma3ForCausalLM(config)
    tensors = shaken(model)

    def weight(name: str) -> np.ndarray:
        found = tensors[f"{name}.weight"]
        # Hugging Face stores gains less 1, GGUF as they are.
        return found + 1 if name.endswith(("norm", "layernorm")) else found

    decoder = Decoder(
        embedding=tensors["model.embed_tokens.weight"],
        output_norm=weight("model.norm"),
        layers=[
            {new: weight(f"model.layers.{i}.{old}") for old, new in GEMMA_NAMES.items()}
            for i in range(7)
        ],
        n_heads=4,
        window=5,
    )
    tokens = np.random.default_rng(0).integers(0, 50, 17)
    batch = torch.tensor(tokens)[None]
    with torch.no_grad():
        theirs = model(input_ids=batch, labels=batch, output_attentions=True)
    # transformers computes angles, norms and the softmax in float32.
    assert decoder.loss(tokens) == pytest.approx(theirs.loss.item(), rel=1e-5)
    found = decoder.forward(tokens)
    for layer, weights in enumerate(theirs.attentions):
        p = weights[0].double().numpy()
        own = measure(found.q[layer], found.k[layer], is_causal=True, window=decoder.visible(layer))
        assert own.max_weight.to_numpy() == pytest.approx(
            p.max(axis=-1)[:, 1:].mean(axis=-1), rel=1e-4
        )
    # A layer that sees everything and one that looks back over 5 keys.
    assert [decoder.visible(layer) for layer in (4, 5)] == [4, None]
    assert decoder.loss(tokens, temperature=3.0) != pytest.approx(decoder.loss(tokens), rel=1e-3)


def test_pieces_are_merged_by_their_scores() -> None:
    pieces = ["<s>", "\u2581", "a", "b", "ab", "\u2581ab", "<0xC3>", "<0xA4>", "ba"]
    scores = [0.0, -9.0, -8.0, -8.0, -1.0, -3.0, 0.0, 0.0, -2.0]
    words = Vocabulary(pieces, scores, begin=0)
    assert words.encode("ab ab").tolist() == [0, 4, 5]
    assert words.encode("bab").tolist() == [0, 3, 4]
    assert words.encode("aä").tolist() == [0, 2, 6, 7]
