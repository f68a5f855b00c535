"""What training minimises. A new objective is one file here and one word in the union."""

from headway.training.objectives.base import BatchLoss, Objective
from headway.training.objectives.teacher_forcing import TeacherForcing

AnyObjective = TeacherForcing  # further members: TeacherForcing | ScheduledSampling | ...

__all__ = ["AnyObjective", "BatchLoss", "Objective", "TeacherForcing"]
