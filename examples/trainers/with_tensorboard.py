"""The peak of each iteration of a recording as a curve of TensorBoard: docs/integrations/trackers.md."""

import sys

import highwater
from torch.utils.tensorboard import SummaryWriter

report = highwater.load(sys.argv[1]).report()

# On the page:
writer = SummaryWriter("runs/memory")
for number, iteration in enumerate(report["devices"][0]["iterations"]):
    writer.add_scalar("memory/peak_allocated_bytes", iteration["peak_allocated_bytes"], number)
writer.close()
