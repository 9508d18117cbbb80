"""The progress display of a training: one bar per stage with its step, duration and rate of events."""

from __future__ import annotations

from rich.console import Console, RenderableType
from rich.progress import BarColumn, Progress, SpinnerColumn, Task, TextColumn, TimeElapsedColumn
from rich.table import Column
from rich.text import Text

from cluster.records.run import STAGES, Run


class _ActiveSpinner(SpinnerColumn):
    """A spinner that only the running stage shows."""

    def render(self, task: Task) -> RenderableType:
        return super().render(task) if task.started and not task.finished else Text(" ")


class TrainingDisplay:
    """Progress bars on standard error; none if it is not a terminal."""

    def __init__(self, console: Console | None = None) -> None:
        console = Console(stderr=True) if console is None else console
        self._bars = Progress(
            _ActiveSpinner(),
            TextColumn("{task.description:<9}"),
            BarColumn(bar_width=12),
            TextColumn("{task.percentage:>3.0f} %"),
            TimeElapsedColumn(),
            # At 80 columns, 40 remain for the message of a stage; a longer one ends in an ellipsis.
            TextColumn(
                "{task.fields[rate]}{task.fields[message]}",
                table_column=Column(no_wrap=True, overflow="ellipsis", ratio=1),
                markup=False,
            ),
            expand=True,
            console=console,
            disable=not console.is_terminal,
        )
        self._stages = {
            name: self._bars.add_task(name, start=False, total=1.0, message="", rate="") for name in STAGES
        }
        self._events = 0

    def __enter__(self) -> TrainingDisplay:
        self._bars.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._bars.stop()

    def show(self, run: Run) -> None:
        """Update the display with the state of a run."""
        done = {stage.name: stage for stage in run.stages}
        for name, task in self._stages.items():
            if name in done:
                self._events = int(done[name].facts.get("events", self._events))
                if not self._bars.tasks[task].finished:
                    self._bars.start_task(task)
                    self._bars.update(
                        task, completed=1.0, message="", rate=self._event_rate(done[name].seconds)
                    )
            elif name == run.stage and not run.has_ended:
                self._bars.start_task(task)
                self._bars.update(task, completed=run.fraction, message=run.message)
        if run.status == "queued" or (run.status == "running" and not run.stage):
            message = "waiting for the trainer" if run.status == "queued" else run.message
            self._bars.update(self._stages[STAGES[0]], message=message)

    def _event_rate(self, seconds: float) -> str:
        return f"{self._events / seconds:,.0f} events/s " if self._events and seconds > 0.01 else ""
