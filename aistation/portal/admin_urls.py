"""Addresses of the cluster map, groups, quotas and administration; a part of `portal.urls`."""

from django.urls import path

from aistation.portal.views import (
    admin_audit,
    admin_images,
    admin_nodes,
    admin_pools,
    admin_users,
    cluster,
    groups,
    quotas,
)

urlpatterns = [
    path("cluster", cluster.cluster, name="cluster"),
    path("groups", groups.groups, name="groups"),
    path("groups/-/new", groups.new_group, name="group_new"),  # no group can be called "-"
    path("groups/<name:name>", groups.group, name="group"),
    path("groups/<name:name>/members", groups.set_member, name="member_set"),
    path("groups/<name:name>/members/<name:username>/remove", groups.remove_member, name="member_remove"),
    path("groups/<name:name>/archive", groups.archive, name="group_archive"),
    path("quotas", quotas.quotas, name="quotas"),
    path("quotas/<name:name>", quotas.group_quotas, name="group_quotas"),
    path("nodes", admin_nodes.nodes, name="nodes"),
    path("nodes/join", admin_nodes.join, name="node_join"),
    path("nodes/tokens/<number:token_id>/revoke", admin_nodes.revoke_token, name="join_token_revoke"),
    path("nodes/<name:name>/cordon", admin_nodes.cordon, name="node_cordon"),
    path("nodes/<name:name>/uncordon", admin_nodes.uncordon, name="node_uncordon"),
    path("nodes/<name:name>/drain", admin_nodes.drain, name="node_drain"),
    path("nodes/<name:name>/remove", admin_nodes.remove, name="node_remove"),
    path("pools", admin_pools.pools, name="pools"),
    path("pools/new", admin_pools.new_pool, name="pool_new"),
    path("pools/<name:name>/change", admin_pools.pool, name="pool"),
    path("images", admin_images.images, name="images"),
    path("images/new", admin_images.new_image, name="image_new"),
    path("images/<name:name>/change", admin_images.image, name="image"),
    path("images/<name:name>/archive", admin_images.archive, name="image_archive"),
    path("profiles", admin_images.profiles, name="profiles"),
    path("profiles/new", admin_images.new_profile, name="profile_new"),
    path("profiles/<name:name>/delete", admin_images.delete_profile, name="profile_delete"),
    path("users", admin_users.users, name="users"),
    path("users/new", admin_users.new_user, name="user_new"),
    path("users/<name:name>/password", admin_users.password, name="user_password"),
    path("users/<name:name>/deactivate", admin_users.deactivate, name="user_deactivate"),
    path("users/<name:name>/reactivate", admin_users.reactivate, name="user_reactivate"),
    path("users/<name:name>/promote", admin_users.promote, name="user_promote"),
    path("users/<name:name>/demote", admin_users.demote, name="user_demote"),
    path("audit", admin_audit.audit, name="audit"),
]
