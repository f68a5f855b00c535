"""Target tokens a second of one training step (forward, backward, Adam): headway beside its peers, in one run.

python -m bench.training_step [--device cuda] [--model base|big|tiny] [--batch 800x32] [--only headway]
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from headway import recipes
from headway.model.design import EncoderDecoderDesign
from headway.model.losses import chunked_cross_entropy

VOCABULARY = 32_000
Step = Callable[[Tensor, Tensor, Tensor], Tensor]


class Headway(nn.Module):
    def __init__(self, design: EncoderDecoderDesign) -> None:
        super().__init__()
        self.model = design.build(VOCABULARY)

    def forward(self, source: Tensor, inputs: Tensor, labels: Tensor) -> Tensor:
        head = self.model.head
        return (
            chunked_cross_entropy(self.model.hidden(source, inputs), head.weight, head.bias, labels, 0.1).total
            / labels.numel()
        )


class Torch(nn.Module):
    """torch.nn.Transformer with a shared embedding, as its users write it."""

    def __init__(self, design: EncoderDecoderDesign) -> None:
        super().__init__()
        width, inner = design.width, getattr(design.feed_forward, "width", None) or 4 * design.width
        self.embedding, self.width = nn.Embedding(VOCABULARY, width), width
        self.core = nn.Transformer(
            width, design.heads, design.encoder_layers, design.decoder_layers, inner, design.dropout, batch_first=True
        )

    def forward(self, source: Tensor, inputs: Tensor, labels: Tensor) -> Tensor:
        mask = nn.Transformer.generate_square_subsequent_mask(inputs.size(1), device=inputs.device)
        x, y = (self.embedding(ids) * self.width**0.5 for ids in (source, inputs))
        hidden = self.core(x, y, tgt_mask=mask, tgt_is_causal=True)
        logits = F.linear(hidden, self.embedding.weight)
        return F.cross_entropy(logits.flatten(0, 1).float(), labels.flatten(), label_smoothing=0.1)


class Marian(nn.Module):
    """Hugging Face's layout of the same model."""

    def __init__(self, design: EncoderDecoderDesign, vocabulary: int = VOCABULARY) -> None:
        super().__init__()
        from transformers import MarianConfig, MarianMTModel

        inner = getattr(design.feed_forward, "width", None) or 4 * design.width
        self.core = MarianMTModel(
            MarianConfig(
                vocab_size=vocabulary, d_model=design.width, encoder_layers=design.encoder_layers,
                decoder_layers=design.decoder_layers, encoder_attention_heads=design.heads,
                decoder_attention_heads=design.heads, encoder_ffn_dim=inner, decoder_ffn_dim=inner,
                dropout=design.dropout, activation_function="relu", scale_embedding=True, pad_token_id=0,
                eos_token_id=3, decoder_start_token_id=2, forced_eos_token_id=None,
            )
        )  # fmt: skip

    def forward(self, source: Tensor, inputs: Tensor, labels: Tensor) -> Tensor:
        logits = self.core(input_ids=source, decoder_input_ids=inputs, use_cache=False).logits
        return F.cross_entropy(logits.flatten(0, 1).float(), labels.flatten(), label_smoothing=0.1)


KINDS: dict[str, type[nn.Module]] = {"headway": Headway, "torch.nn.Transformer": Torch, "Hugging Face Marian": Marian}


def stepper(model: nn.Module, compiled: bool, dtype: torch.dtype | None, device: str) -> Step:
    loss_of = torch.compile(model) if compiled else model
    optimiser = torch.optim.Adam(model.parameters(), lr=1e-4, betas=(0.9, 0.98), eps=1e-9, fused=True)

    def step(source: Tensor, inputs: Tensor, labels: Tensor) -> Tensor:
        with torch.autocast(device, dtype or torch.bfloat16, enabled=dtype is not None):
            loss = loss_of(source, inputs, labels)
        loss.backward()
        optimiser.step()
        optimiser.zero_grad(set_to_none=True)
        return loss

    return step


def seconds(step: Step, batch: tuple[Tensor, ...], repeats: int) -> float:
    for _ in range(2):
        step(*batch)
    took = []
    for _ in range(repeats):
        wait(batch[0])
        begun = time.perf_counter()
        step(*batch)
        wait(batch[0])
        took.append(time.perf_counter() - begun)
    return sorted(took)[len(took) // 2]


def wait(tensor: Tensor) -> None:
    if tensor.is_cuda:
        torch.cuda.synchronize()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--model", default="base", choices=["base", "big", "tiny", "small"])
    parser.add_argument("--batch", default="800x32")
    parser.add_argument("--only", default="")
    parser.add_argument("--eager", action="store_true", help="leave torch.compile out")
    parser.add_argument("--precision", default="bf16", choices=["bf16", "fp32"])
    parser.add_argument("--repeats", type=int, default=10)
    given = parser.parse_args()
    torch.set_float32_matmul_precision("high")
    rows, length = map(int, given.batch.split("x"))
    source, labels = (torch.randint(4, VOCABULARY, (rows, length), device=given.device) for _ in range(2))
    inputs = torch.cat([torch.full_like(labels[:, :1], 2), labels[:, :-1]], dim=1)
    design = recipes.ENCODER_DECODERS[given.model]()
    print(f"| {given.model} {given.batch} {given.precision} | target tokens/s | ms a step |\n|---|---|---|")
    for name, kind in KINDS.items():
        for compiled in (False,) if given.eager else (False, True):
            if given.only and given.only not in name:
                continue
            torch._dynamo.reset()
            torch.manual_seed(0)
            model = kind(design).to(given.device).train()
            dtype = torch.bfloat16 if given.precision == "bf16" else None
            took = seconds(stepper(model, compiled, dtype, given.device), (source, inputs, labels), given.repeats)
            how = "compiled" if compiled else "eager"
            print(f"| {name}, {how} | {labels.numel() / took:,.0f} | {took * 1e3:.1f} |", flush=True)
            del model


if __name__ == "__main__":
    main()
