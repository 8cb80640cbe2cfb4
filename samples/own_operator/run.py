"""Runs a rewritten UNet in Python: the library first, then the model."""
import pathlib
import sys

import torch

HERE = pathlib.Path(__file__).resolve().parent


def main():
    torch.ops.load_library(str(HERE / "libown_ops.so"))
    path = pathlib.Path(sys.argv[1])
    model, inputs = torch.jit.load(path), torch.load(path.with_name("unet_inputs.pt"))
    with torch.no_grad():
        expected, got = torch.jit.load(path.with_name("unet.pt"))(*inputs), model(*inputs)
    print("largest difference to unet.pt:", (got - expected).abs().max().item())


if __name__ == "__main__":
    main()
