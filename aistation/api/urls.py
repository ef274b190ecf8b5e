"""All addresses of the REST API."""

from django.urls import include, path, re_path

from aistation.api.views import catalog, documents, environments, fleet, groups, jobs, logs, people, reports
from aistation.core import converters  # noqa: F401 - makes the kinds of address parts known

app_name = "api"
v1 = [
    path("me", people.Me.as_view()),
    path("tokens", people.Tokens.as_view()),
    path("tokens/<number:token_id>", people.TokenDetail.as_view()),
    path("users", people.Users.as_view()),
    path("users/<name:username>", people.UserDetail.as_view()),
    path("groups", groups.Groups.as_view()),
    path("groups/<name:group>", groups.GroupDetail.as_view()),
    path("groups/<name:group>/members", groups.Members.as_view()),
    path("groups/<name:group>/members/<name:username>", groups.MemberDetail.as_view()),
    path("groups/<name:group>/quotas", groups.GroupQuotas.as_view()),
    path("groups/<name:group>/users/<name:username>/quotas", groups.UserQuotas.as_view()),
    path("pools", fleet.Pools.as_view()),
    path("pools/<name:pool>", fleet.PoolDetail.as_view()),
    path("join-tokens", fleet.JoinTokens.as_view()),
    path("join-tokens/<number:token_id>", fleet.JoinTokenDetail.as_view()),
    path("nodes", fleet.Nodes.as_view()),
    path("nodes/<name:node>", fleet.NodeDetail.as_view()),
    path("nodes/<name:node>/cordon", fleet.Cordon.as_view()),
    path("nodes/<name:node>/uncordon", fleet.Uncordon.as_view()),
    path("nodes/<name:node>/drain", fleet.Drain.as_view()),
    path("gpus", fleet.Gpus.as_view()),
    path("images", catalog.Images.as_view()),
    path("images/<name:image>", catalog.ImageDetail.as_view()),
    path("profiles", catalog.Profiles.as_view()),
    path("profiles/<name:profile>", catalog.ProfileDetail.as_view()),
    path("folders", catalog.Folders.as_view()),
    path("folders/<uid:folder>", catalog.FolderDetail.as_view()),
    path("jobs", jobs.Jobs.as_view()),
    path("jobs/dry-run", jobs.JobDryRun.as_view()),
    path("jobs/<uid:job>", jobs.JobDetail.as_view()),
    path("jobs/<uid:job>/cancel", jobs.JobCancel.as_view()),
    path("jobs/<uid:job>/hold", jobs.JobHold.as_view()),
    path("jobs/<uid:job>/release", jobs.JobRelease.as_view()),
    path("jobs/<uid:job>/events", jobs.JobEvents.as_view()),
    path("jobs/<uid:job>/logs", logs.JobLogs.as_view()),
    path("environments", environments.Environments.as_view()),
    path("environments/<uid:environment>", environments.EnvironmentDetail.as_view()),
    path("environments/<uid:environment>/start", environments.EnvironmentStart.as_view()),
    path("environments/<uid:environment>/stop", environments.EnvironmentStop.as_view()),
    path("environments/<uid:environment>/events", environments.EnvironmentEvents.as_view()),
    path("environments/<uid:environment>/logs", logs.EnvironmentLogs.as_view()),
    path("queue", reports.Queue.as_view()),
    path("usage", reports.Usage.as_view()),
    path("audit", reports.Audit.as_view()),
    path("metrics", documents.Metrics.as_view()),
]
urlpatterns = [
    path("v1/", include(v1)),
    path("schema/", documents.Schema.as_view(), name="schema"),
    path("docs/", documents.docs, name="docs"),
    re_path(r"^.*$", documents.Missing.as_view()),
]
