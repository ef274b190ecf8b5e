"""Addresses of the pages, one noun after the other."""

from django.urls import include, path

from aistation.portal.converters import register
from aistation.portal.views import environments, home, jobs, profile, queue, session

register()
app_name = "portal"
urlpatterns = [
    path("", home.home, name="home"),
    path("login", session.sign_in, name="login"),
    path("logout", session.sign_out, name="logout"),
    path("look", session.look, name="look"),
    path("environments", environments.environments, name="environments"),
    path("environments/new", environments.new_environment, name="environment_new"),
    path("environments/answer", environments.environment_answer, name="environment_answer"),
    path("environments/<workload:uid>", environments.environment, name="environment"),
    path("environments/<workload:uid>/start", environments.start, name="environment_start"),
    path("environments/<workload:uid>/stop", environments.stop, name="environment_stop"),
    path("environments/<workload:uid>/delete", environments.delete, name="environment_delete"),
    path("jobs", jobs.jobs, name="jobs"),
    path("jobs/new", jobs.new_job, name="job_new"),
    path("jobs/answer", jobs.job_answer, name="job_answer"),
    path("jobs/<workload:uid>", jobs.job, name="job"),
    path("jobs/<workload:uid>/cancel", jobs.cancel, name="job_cancel"),
    path("jobs/<workload:uid>/hold", jobs.hold, name="job_hold"),
    path("jobs/<workload:uid>/release", jobs.release, name="job_release"),
    path("queue", queue.waiting, name="queue"),
    path("profile", profile.profile, name="profile"),
    path("profile/password", profile.change_password, name="password"),
    path("profile/tokens", profile.create_token, name="token_create"),
    path("profile/tokens/<int:token_id>/revoke", profile.revoke_token, name="token_revoke"),
    path("", include("aistation.portal.admin_urls")),
]
