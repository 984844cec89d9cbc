from benchmarks.models.proof import Proof
from benchmarks.models.run import Result, Run
from benchmarks.models.suite import Suite, Threshold
from benchmarks.models.verdict import Verdict

__all__ = ["Proof", "Result", "Run", "Suite", "Threshold", "Verdict"]
