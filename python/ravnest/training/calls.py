"""The calls that all nodes of a cluster make together: begun, served and left in the same order everywhere."""

import sys
import uuid
from collections.abc import Callable, Mapping
from typing import Any, NoReturn, Self

from ..engine.named_tensors import NamedTensors
from ..errors import Error
from .checkpoints import Checkpoints
from .criterion import Faults, farewell_of
from .endings import ended_early, ending_by
from .run import Run, serve


class Calls(NamedTensors):
    """What a node is in: a call that its script has made, none yet, or none any more.

    In a call the root does the work, and each other node serves it; a call is over when the root leaves it. A root
    whose script makes no call is in one, "direct", from its first batch until it stops.

    Attributes:
        name: Which node this is.
        strategy: None where the nodes are a pipeline.
        is_root: Whether it begins and ends the calls that others serve.
        clusters: How many clusters train side by side.
        run: What the root feeds.
        stop_at_nan: Whether the run ends with an error at the first loss that is not finite.
        checkpoints: Which ones the run makes; None: none.
    """

    name: str
    strategy: str | None
    is_root: bool
    clusters: int
    run: Run

    def __init__(self) -> None:
        self._core: Any = None  # _core.Node; of a rank _core.Rank
        self._call: str | None = None
        self._configured = self._served = False
        self._run_id = uuid.uuid4().hex[:12]
        self._faults = Faults()
        self.stop_at_nan = False
        self.checkpoints: Checkpoints | None = None

    def _configure(self, core: Any) -> None:
        """Tell the core how this run trains; the first time of all calls, and what may change at each."""
        raise NotImplementedError

    def _begin(self, core: Any, name: str, settings: Mapping[str, str] | None = None) -> None:
        """The call begins; `settings` are what all who feed have to have the same."""
        core.begin(name)

    def _end_run(self, core: Any, error: BaseException) -> BaseException:
        """Tell the others why the run is over. What this one is to raise for it."""
        core.stop(*farewell_of(error))
        return error

    @property
    def _member(self) -> Any:
        if self._core is None:
            raise Error(f"{self.name} has left its {'run' if self.strategy else 'cluster'}")
        return self._core

    def start(self) -> None:
        """A node runs from the moment it is made; this is for scripts that call it."""

    init_server = start_grpc_server = check_load_forward_buffer = start

    def stop(self) -> None:
        """Leave the cluster in good order. One that is not the root first serves what the root has begun by itself."""
        if self._core is None:
            return
        try:
            if self.is_root and self._call is not None:
                self.leave_call(save=False)
            elif not self.is_root and not self._served:
                self.call("direct", lambda: None)
        finally:
            self._core.close()
            self._core = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type | None, error: BaseException | None, trace: object) -> None:
        if error is None:
            self.stop()
            return
        self._faults.explain(error)
        if self._core is not None:
            self._core.stop(*farewell_of(error))
            self._core.close()
            self._core = None

    def call(
        self,
        name: str,
        body: Callable[[], Any],
        save: bool = False,
        settings: Mapping[str, str] | None = None,
        recorded: Mapping[str, str] | None = None,
    ) -> Any:
        """Run something on the root; on other nodes serve until the root's call of the same name is over.

        Args:
            name: Of the call.
            body: What the root runs.
            save: Whether all stages are saved at the end.
            settings: What has to be the same wherever data are fed.
            recorded: What checkpoints say of the run beside that.

        Returns:
            What `body` does; on other nodes nothing, but the accuracy that the root found where it evaluates.
        """
        if self._call is not None:
            return body()
        core = self._member
        self._configure(core)
        self._served = True
        self._call = name
        try:
            if name != "train" or self.checkpoints is None:
                return self._run_call(core, name, body, save, settings)
            core.begin_run(dict(recorded or {}))
            with ending_by(core.want_end):
                return self._run_call(core, name, body, save, settings)
        except BaseException as error:
            self._faults.explain(error)
            raised = self._end_run(core, error)
            if raised is error:
                raise
            raise raised from raised.__cause__
        finally:
            self._call = None

    def _run_call(self, core: Any, name: str, body: Callable[[], Any], save: bool, settings: Any) -> Any:
        self._begin(core, name, settings)
        if not self.is_root:
            accuracy, ended = serve(core, name)
            return accuracy if ended is None else self._end_early(ended)
        try:
            result = body()
        except Error:
            # Either what tells the loop to end, or a failure that finishing finds, too.
            if self.checkpoints is None or self._core is None or core.end_wanted() is None:
                raise
            self._end_early(core.finish_early(run=self._run_id)["ended_early"])
        if self._call is not None:
            self.leave_call(save)
        return result

    def keep_checkpoints(self, checkpoints: Checkpoints) -> None:
        """Make checkpoints while training, and go on from one if asked to; before the first call.

        Args:
            checkpoints: Which ones.
        """
        if self._configured:
            raise ValueError(f"{self.name} trains already: give checkpoint= to the first Trainer of a node")
        self.checkpoints = checkpoints

    def _end_early(self, why: str) -> NoReturn:
        """The run was asked to end, and its checkpoint is there: this process ends well."""
        ended_early()
        self._core.close()
        self._core = self._call = None
        print(f"ravnest: {why}; resume=True or RAVNEST_RESUME=1 goes on from there", file=sys.stderr, flush=True)
        raise SystemExit(0)

    def get_latest_weights(self) -> None:
        """Take the newest weights of the other clusters, by a round with them; a cluster that comes late adds nothing.

        To be called on all nodes of the cluster. Where there is one cluster, its own weights are the newest.
        """
        if self.clusters > 1:
            self.call("get_latest_weights", self._member.average)

    def _direct_call(self) -> None:
        """A root whose script has no Trainer is in one call until it stops."""
        if self._call is None:
            if self.checkpoints is not None:
                raise ValueError(
                    "checkpoint= needs to know where training begins and ends: put this loop into the train() of a "
                    "subclass of Trainer"
                )
            self._configure(self._member)
            self._begin(self._member, "direct")
            self._call = "direct"

    def leave_call(self, save: bool = False) -> None:
        """The root's call is over: the other nodes return from theirs, and save their stages if asked to."""
        self.run.end_sweep()
        self._finish(save)
        self._call = None

    def _finish(self, save: bool, goes_on: bool = False) -> None:
        self._member.finish(save=save, run=self._run_id, goes_on=goes_on)
