"""Tables of images, profiles and folders."""

from typing import Any

from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.db.models import Q

from aistation.fleet.models import Pool
from aistation.tenancy.models import Group, User


class Image(models.Model):
    """A container image under a name of ours. ``group`` null: for everyone.

    ``reference`` is what the container runtime is asked for; the process runtime looks for a recipe called
    like the image instead and runs plain commands of the host when there is none.
    """

    name = models.CharField(max_length=63, unique=True)
    reference = models.CharField(max_length=255)
    description = models.CharField(max_length=500, blank=True)
    kinds: Any = ArrayField(models.CharField(max_length=16))
    port = models.PositiveIntegerField(null=True, help_text="where an environment of this image answers HTTP")
    command = models.JSONField(default=list, help_text="default; empty: the image's own")
    group = models.ForeignKey(Group, on_delete=models.CASCADE, null=True, related_name="images")
    created_at = models.DateTimeField()
    archived_at = models.DateTimeField(null=True)

    class Meta:
        constraints = [models.CheckConstraint(name="image_port", condition=Q(port=None) | Q(port__range=(1, 65535)))]

    def __str__(self) -> str:
        return self.name


class Profile(models.Model):
    """A named bundle of resources, offered in the forms."""

    name = models.CharField(max_length=63, unique=True)
    description = models.CharField(max_length=500, blank=True)
    kinds: Any = ArrayField(models.CharField(max_length=16))
    pool = models.ForeignKey(Pool, on_delete=models.SET_NULL, null=True)
    cpu_milli = models.PositiveIntegerField()
    memory_mib = models.PositiveIntegerField()
    gpus = models.PositiveSmallIntegerField(default=0)
    gpu_slices = models.PositiveSmallIntegerField(null=True)
    gpu_memory_mib = models.PositiveIntegerField(null=True)
    gpu_compute_milli = models.PositiveSmallIntegerField(null=True)
    gpu_model = models.CharField(max_length=128, null=True)  # noqa: DJ001 - null is "any", as in the API
    created_at = models.DateTimeField()

    def __str__(self) -> str:
        return self.name


class Folder(models.Model):
    """A directory that workloads mount: of a person (``user``) or shared by a group, never both.

    Its place below the root is ``uid``, not its name: no choice of names can make two folders one.
    """

    uid = models.CharField(max_length=32, unique=True)
    name = models.CharField(max_length=63)
    user = models.ForeignKey(User, on_delete=models.CASCADE, null=True, related_name="folders")
    group = models.ForeignKey(Group, on_delete=models.CASCADE, null=True, related_name="folders")
    created_at = models.DateTimeField()

    class Meta:
        constraints = [
            models.CheckConstraint(
                name="folder_one_owner",
                condition=Q(user=None, group__isnull=False) | Q(user__isnull=False, group=None),
            ),
            models.UniqueConstraint(fields=["user", "group", "name"], name="folder_name_once", nulls_distinct=False),
        ]
