"""The peak of each iteration of a recording as a curve of TensorBoard: docs/integrations/trackers.md."""

import sys

import highwater

report = highwater.load(sys.argv[1]).report()

# On the page:
from tensorboard.compat.proto.event_pb2 import Event
from tensorboard.compat.proto.summary_pb2 import Summary
from tensorboard.summary.writer.event_file_writer import EventFileWriter

writer = EventFileWriter("runs/memory")
for number, iteration in enumerate(report["devices"][0]["iterations"]):
    value = Summary.Value(tag="memory/peak_allocated_bytes", simple_value=iteration["peak_allocated_bytes"])
    writer.add_event(Event(step=number, summary=Summary(value=[value])))
writer.close()
