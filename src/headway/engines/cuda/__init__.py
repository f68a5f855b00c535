"""The engine for CUDA: beam search as captured graphs and Triton kernels."""
