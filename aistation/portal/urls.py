"""Addresses of the pages, one noun after the other."""

from django.urls import path

from aistation.portal.views import home, profile, session

app_name = "portal"
urlpatterns = [
    path("", home.home, name="home"),
    path("login", session.sign_in, name="login"),
    path("logout", session.sign_out, name="logout"),
    path("look", session.look, name="look"),
    path("profile", profile.profile, name="profile"),
    path("profile/password", profile.change_password, name="password"),
    path("profile/tokens", profile.create_token, name="token_create"),
    path("profile/tokens/<int:token_id>/revoke", profile.revoke_token, name="token_revoke"),
]
