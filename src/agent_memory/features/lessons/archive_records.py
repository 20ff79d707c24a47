"""What people say of lessons, in the archive of everything. The lessons are learned again from the
events."""

import msgspec

from agent_memory.features.lessons.model.lessons import LessonVerdict
from agent_memory.platform.archive_parts import ArchiveFormat

FORMATS = {
    "lesson_verdict": ArchiveFormat(
        kind=LessonVerdict,
        write=msgspec.to_builtins,
        read=lambda fields: msgspec.convert(fields, LessonVerdict),
    ),
}
