"""The formulas of the paper, and of the parts that can stand in their places, as plain text."""

from __future__ import annotations

POSITIONS = {
    "sinusoidal": "x + PE(pos),  PE(pos, 2i) = sin(pos / 10000^(2i/d)),  PE(pos, 2i+1) = cos(pos / 10000^(2i/d))",
    "learned": "x + P[pos]",
}
ROTATED = {"rotary": "R(pos) "}  # what is done to queries and keys
SCORES = {
    "DotScore": "q kᵀ / √dₖ",
    "CosineScore": "γ · cos(q, k)",
    "AdditiveScore": "vᵀ tanh(W q + U k)",
}
PLAIN_DOT = "q kᵀ"
BIAS = {
    "alibi": " − m · distance",
    "bucketed": " + b[bucket of distance]",
    "transformer_xl": " + u kᵀ + q Rᵀ + v Rᵀ",
    "tener": " + u kᵀ + q Rᵀ + v Rᵀ",
}
WEIGHTS = {"ExplicitLinearKernel": "φ(q) φ(k)ᵀ / Σ φ(q) φ(k)ᵀ,  φ(x) = elu(x) + 1"}
SOFTMAX = "softmax(scores)"
SOFTMAX_CAUSAL = "softmax(scores), −∞ where a later piece stands"
HEAD = "headᵢ = Σ weight · v"
MULTI_HEAD = "MultiHead = Concat(head₁ … headₕ) W_O"
RESIDUAL = {
    "post": "x + Sublayer(x)",
    "deep": "α x + Sublayer(x)",
    "pre": "x + Sublayer(Norm(x))",
    "sandwich": "x + Norm(Sublayer(Norm(x)))",
    "rezero": "x + α · Sublayer(x)",
}
NORM = {
    "layer": "LayerNorm(x) = γ · (x − μ) / √(σ² + ε) + β",
    "rms": "RMSNorm(x) = γ · x / √(mean(x²) + ε)",
    "batch": "BatchNorm(x) = γ · (x − μ) / √(σ² + ε) + β, μ and σ of the training text",
}
INNER = {
    "relu": "max(0, x W₁ + b₁)",
    "gelu": "GELU(x W₁ + b₁)",
    "swish": "swish(x W₁ + b₁)",
    "swiglu": "swish(x W) · (x V)",
}
FEED_FORWARD = {kind: f"FFN(x) = {inner} W₂ + b₂" for kind, inner in INNER.items()}
LOGITS = "x Eᵀ"
PROBABILITIES = "softmax(logits)"
