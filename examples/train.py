"""A training program that loses nothing when it is killed: the recipe to copy.

    python examples/train.py runs/first
    python examples/train.py runs/first --workers 4    # the same again: it goes on

It has what makes restarts hard: dropout, batch norm, a gradient scaler with overflows, a warm-up
schedule, accumulation, augmentation in loader workers. Kill it wherever you like, start it again
with the same directory, and every later loss and weight is what it would have been:

    datacursor verify-restart --steps 12 --kill-at 3,7 -- python examples/train.py {run_dir}
"""

from __future__ import annotations

import argparse
import random
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import nn

import datacursor as dc
from datacursor import recovery

if TYPE_CHECKING:
    from numpy.typing import NDArray

SEED = 7
EPOCHS = 3
NUM_SAMPLES = 70
NUM_CLASSES = 4
SIZE = 8  # of an image, in pixels
BATCH_SIZE = 8
ACCUMULATION = 2
WARM_UP_UPDATES = 8
SAVE_EVERY = 2  # updates
OVERFLOWS = (4, 10)  # updates whose gradients are made infinite, so that the scaler skips them

Sample = tuple["NDArray[np.float32]", int]


class Shapes(torch.utils.data.Dataset[Sample]):
    """Noisy images of a few shapes, made up once."""

    def __init__(self) -> None:
        generator = np.random.default_rng(SEED)
        self.labels = generator.integers(NUM_CLASSES, size=NUM_SAMPLES)
        shapes = generator.normal(size=(NUM_CLASSES, SIZE, SIZE))
        noise = generator.normal(size=(NUM_SAMPLES, SIZE, SIZE))
        self.images = (shapes[self.labels] + 0.5 * noise).astype(np.float32)

    def __len__(self) -> int:
        return NUM_SAMPLES

    def __getitem__(self, index: int) -> Sample:
        return self.images[index], int(self.labels[index])


def augment(sample: Sample, generator: np.random.Generator) -> Sample:
    """Flip and shift an image; equal for any number of workers and after any restart."""
    image, label = sample
    if generator.random() < 0.5:
        image = image[:, ::-1]
    return np.roll(image, generator.integers(-1, 2, size=2), axis=(0, 1)), label


def make_model() -> nn.Module:
    return nn.Sequential(
        nn.Unflatten(1, (1, SIZE)),
        nn.Conv2d(1, 8, kernel_size=3, padding=1, bias=False),
        nn.BatchNorm2d(8),
        nn.ReLU(),
        nn.Dropout(0.2),
        nn.Flatten(),
        nn.Linear(8 * SIZE * SIZE, NUM_CLASSES),
    )


def warm_up(update: int) -> float:
    """Return the factor of the learning rate after some updates."""
    return min(1.0, (update + 1) / WARM_UP_UPDATES)


def train(run_dir: Path, num_workers: int) -> None:
    """Train to the end of the last epoch, from the last checkpoint if there is one."""
    random.seed(SEED)
    np.random.seed(SEED)  # noqa: NPY002  # libraries draw from it
    torch.manual_seed(SEED)
    dataset = Shapes()
    sampler = dc.CursorSampler(
        dataset, batch_size=BATCH_SIZE, accumulation_steps=ACCUMULATION, seed=SEED
    )
    augmented = dc.SampleSeeded(dataset, sampler, seed=SEED, transform=augment)
    loader: dc.CursorLoader[Any] = dc.CursorLoader(
        augmented, sampler=sampler, num_workers=num_workers
    )
    model = make_model()
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, warm_up)
    scaler = torch.amp.GradScaler("cpu", init_scale=1024.0, growth_interval=3)
    loop = recovery.LoopState(recovery.LoopConvention(accumulation=ACCUMULATION))

    # Everything that the next update depends on.
    state = recovery.TrainingState(
        model=model,
        optimizer=optimizer,
        scheduler=scheduler,
        scaler=scaler,
        sampler=sampler,
        loop=loop,
        rng=recovery.RNGState(),
    )
    trace = recovery.Trace.from_env()  # for `datacursor verify-restart`; else it does nothing
    step = recovery.latest(run_dir)
    if step is not None:
        report = state.load_state_dict(recovery.load(run_dir, step))
        print(f"going on after update {step}; equality: {report.claim}")

    criterion = nn.CrossEntropyLoss(reduction="sum")
    while sampler.epoch < EPOCHS:
        total_loss, num_samples = torch.zeros(()), 0
        for images, labels in loader:
            loss = criterion(model(images), labels) / (BATCH_SIZE * ACCUMULATION)
            total_loss += loss.detach()
            num_samples += loader.num_real
            if loop.attempted + 1 in OVERFLOWS:  # planted: your program leaves these lines out
                loss = loss * float("inf")
            scaler.scale(loss).backward()
            if not loader.ends_update:
                continue

            scaler.step(optimizer)
            applied = recovery.step_applied(optimizer, scaler)
            scaler.update()
            optimizer.zero_grad()
            if applied:
                scheduler.step()
                sampler.commit()
            else:
                sampler.skip()
            loop.record(applied=applied, samples=num_samples)
            trace.commit(state, loss=total_loss, applied=applied)
            if loop.attempted % SAVE_EVERY == 0:
                recovery.save(state, run_dir, loop.attempted, keep=2)
            print(f"update {loop.attempted}: loss {total_loss:.4f}, {sampler.cursor}")
            total_loss, num_samples = torch.zeros(()), 0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("run_dir", type=Path, help="where checkpoints are saved and looked for")
    parser.add_argument("--workers", type=int, default=2, help="of the loader (default: 2)")
    parser.add_argument("--threads", type=int, default=1, help="of torch (default: 1)")
    options = parser.parse_args()
    # Another number of threads adds in another order, and changes the last bits.
    torch.set_num_threads(options.threads)
    train(options.run_dir, options.workers)


if __name__ == "__main__":
    main()
