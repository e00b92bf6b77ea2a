"""How good a model is over a data set: on any device, in any number of processes and machines.

`evaluate_model` is what ``fitzroy evaluate`` calls. An example gives a record, which depends on
that example alone; a report is computed from all records in the order of the data. So it is the
same however the work was shared out, and whatever was interrupted and went on.
"""

from fitzroy.evaluation.evaluate import Evaluation, evaluate_model
from fitzroy.evaluation.task import Subject, Task

__all__ = ["Evaluation", "Subject", "Task", "evaluate_model"]
