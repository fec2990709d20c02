"""The peak of each iteration of a recording, and its page, in a run of Weights & Biases: docs/integrations/trackers.md."""

import sys

import highwater
import wandb

snapshot = highwater.load(sys.argv[1])
report = snapshot.report()
snapshot.to_html("run.html")

# On the page:
with wandb.init(project="memory") as run:
    for iteration in report["devices"][0]["iterations"]:
        run.log({"memory/peak_allocated_bytes": iteration["peak_allocated_bytes"]})
    run.log_artifact("run.html", name="memory", type="highwater")
