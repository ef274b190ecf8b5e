"""Tables of people and tenants."""

from typing import Any, ClassVar

from django.contrib.auth.base_user import AbstractBaseUser, BaseUserManager
from django.contrib.postgres.fields import ArrayField
from django.db import models


class UserManager(BaseUserManager["User"]):
    """Django's hook; rows are made by ``tenancy.services.create_user``."""

    def get_by_natural_key(self, username: str | None) -> "User":
        return self.get(username=username)


class User(AbstractBaseUser):
    """A person. Names are lower case, so no two differ by case only."""

    username = models.CharField(max_length=63, unique=True)
    display_name = models.CharField(max_length=128, blank=True)
    email = models.EmailField(blank=True)
    is_active = models.BooleanField(default=True)
    is_platform_admin = models.BooleanField(default=False)
    created_at = models.DateTimeField()

    USERNAME_FIELD = "username"
    REQUIRED_FIELDS: ClassVar[list[str]] = []
    objects: ClassVar[UserManager] = UserManager()

    class Meta:
        constraints = [
            models.CheckConstraint(
                name="user_name_lower", condition=models.Q(username=models.functions.Lower("username"))
            )
        ]

    def __str__(self) -> str:
        return self.username


class Group(models.Model):
    """A tenant. Deleting one with history archives it."""

    name = models.CharField(max_length=63, unique=True)
    display_name = models.CharField(max_length=128, blank=True)
    created_at = models.DateTimeField()
    archived_at = models.DateTimeField(null=True)

    def __str__(self) -> str:
        return self.name


class Membership(models.Model):
    """A person's role in a group: 1 viewer, 2 member, 3 group_admin."""

    user = models.ForeignKey(User, on_delete=models.CASCADE, related_name="memberships")
    group = models.ForeignKey(Group, on_delete=models.CASCADE, related_name="memberships")
    role = models.SmallIntegerField()
    created_at = models.DateTimeField()

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["user", "group"], name="membership_once"),
            models.CheckConstraint(name="membership_role", condition=models.Q(role__in=[1, 2, 3])),
        ]


class ApiToken(models.Model):
    """A bearer token of a person. Only its SHA-256 is kept: 256 random bits need no slow hash."""

    user = models.ForeignKey(User, on_delete=models.CASCADE, related_name="tokens")
    name = models.CharField(max_length=63)
    hint = models.CharField(max_length=12, help_text="first characters, to recognise it in the list")
    digest = models.BinaryField(max_length=32, unique=True)
    scopes: Any = ArrayField(models.CharField(max_length=16), null=True)
    created_at = models.DateTimeField()
    expires_at = models.DateTimeField()
    last_used_at = models.DateTimeField(null=True)
    revoked_at = models.DateTimeField(null=True)


class LoginFailure(models.Model):
    """A failed sign-in; counted to slow guessing down, pruned after an hour."""

    username = models.CharField(max_length=150)
    address = models.GenericIPAddressField(null=True)
    at = models.DateTimeField()

    class Meta:
        indexes = [models.Index(fields=["username", "at"], name="login_failure_user")]
