"""Sentences a second on CUDA: transformer-base shapes, source of 32 pieces, 32 pieces forced out, beside Hugging Face.

python -m bench.decoding_gpu [--rows 1x1,1x4,64x1,64x4,256x4,1024x1]
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from dataclasses import replace

import torch

from headway import recipes
from headway.search import Beam, Limits
from headway.search.captured import CapturedBeam
from headway.text.vocabulary import EOS

VOCABULARY, LENGTH = 32_000, 32


def best_time(work: Callable[[], object], repeats: int) -> float:
    work()
    took = []
    for _ in range(repeats):
        torch.cuda.synchronize()
        begun = time.perf_counter()
        work()
        torch.cuda.synchronize()
        took.append(time.perf_counter() - begun)
    return sorted(took)[len(took) // 2]


def marian() -> torch.nn.Module:
    from transformers import MarianConfig, MarianMTModel

    layout = MarianConfig(
        vocab_size=VOCABULARY, d_model=512, encoder_layers=6, decoder_layers=6, encoder_attention_heads=8,
        decoder_attention_heads=8, encoder_ffn_dim=2048, decoder_ffn_dim=2048, pad_token_id=0, eos_token_id=3,
        decoder_start_token_id=2, scale_embedding=True, activation_function="relu", forced_eos_token_id=None,
    )  # fmt: skip
    return MarianMTModel(layout).cuda().bfloat16().eval()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", default="1x1,1x4,64x1,64x4,256x4,1024x1")
    given = parser.parse_args()
    torch.manual_seed(0)
    model = replace(recipes.base(), output_bias=True).build(VOCABULARY).cuda().bfloat16().eval()
    with torch.no_grad():
        assert model.head.bias is not None
        model.head.bias[EOS] = -1e4  # no output ends by itself: every one has the forced length
    peer = marian()
    limits = Limits(ratio=0.0, extra=LENGTH)
    print("| sentences × beam | headway ms | sentences/s | Hugging Face ms | ratio | ms a step |")
    print("|---|---|---|---|---|---|")
    for row in given.rows.split(","):
        sentences, beam = map(int, row.split("x"))
        source = torch.randint(4, VOCABULARY, (sentences, LENGTH), device="cuda")
        ours = CapturedBeam(model, Beam(size=beam, limits=limits))
        assert all(len(found[0].ids) == LENGTH for found in ours(source))
        mine = best_time(lambda ours=ours, source=source: ours(source), 5)
        attention = torch.ones_like(source)
        theirs = best_time(
            lambda source=source, attention=attention, beam=beam: peer.generate(  # pyright: ignore
                source, attention_mask=attention, num_beams=beam, do_sample=False,
                min_new_tokens=LENGTH, max_new_tokens=LENGTH,
            ),
            2,
        )  # fmt: skip
        print(
            f"| {sentences} × {beam} | {mine * 1e3:.1f} | {sentences / mine:,.0f} | {theirs * 1e3:.0f} "
            f"| {theirs / mine:.1f} | {mine * 1e3 / LENGTH:.2f} |",
            flush=True,
        )
        del ours
        torch.cuda.empty_cache()


if __name__ == "__main__":
    main()
