"""Every page and form of the portal with what each role gets: the same columns as in route_table.py.

L: sent to the sign-in page. Y: let in (a form without its fields is let in, and refused later). F: 403. N: 404, the
very page of what does not exist.
"""

from typing import Final

EVERYBODY: Final = "LYYYYYY"
IN_THE_GROUP: Final = "LNYYYYY"
CONTROLS: Final = "LNFFYYY"
GROUP_ADMINS: Final = "LNFFFYY"
PLATFORM: Final = "LFFFFFY"

PAGES: Final[dict[str, dict[str, str]]] = {
    "/": {"GET": EVERYBODY},
    "/login": {"GET": "YYYYYYY", "POST": "YYYYYYY"},
    "/logout": {"POST": "LLLLLLL"},
    "/look": {"POST": "YYYYYYY"},
    "/environments": {"GET": EVERYBODY},
    "/environments/new": {"GET": EVERYBODY, "POST": EVERYBODY},
    "/environments/answer": {"POST": EVERYBODY},
    "/environments/{uid}": {"GET": IN_THE_GROUP},
    "/environments/{uid}/start": {"POST": CONTROLS},
    "/environments/{uid}/stop": {"POST": CONTROLS},
    "/environments/{uid}/delete": {"POST": CONTROLS},
    "/environments/{uid}/open": {"GET": "LNNNYNN"},
    "/jobs": {"GET": EVERYBODY},
    "/jobs/new": {"GET": EVERYBODY, "POST": EVERYBODY},
    "/jobs/answer": {"POST": EVERYBODY},
    "/jobs/{uid}": {"GET": IN_THE_GROUP},
    "/jobs/{uid}/cancel": {"POST": CONTROLS},
    "/jobs/{uid}/hold": {"POST": CONTROLS},
    "/jobs/{uid}/release": {"POST": CONTROLS},
    "/queue": {"GET": EVERYBODY},
    "/profile": {"GET": EVERYBODY},
    "/profile/password": {"POST": EVERYBODY},
    "/profile/tokens": {"POST": EVERYBODY},
    "/profile/tokens/{token_id}/revoke": {"POST": EVERYBODY},  # asks first, whatever the number
    "/cluster": {"GET": EVERYBODY},
    "/groups": {"GET": EVERYBODY},
    "/groups/-/new": {"GET": PLATFORM, "POST": PLATFORM},
    "/groups/{group}": {"GET": IN_THE_GROUP},
    "/groups/{group}/members": {"POST": GROUP_ADMINS},
    "/groups/{group}/members/{username}/remove": {"POST": GROUP_ADMINS},
    "/groups/{group}/archive": {"POST": "LNFFFFY"},
    "/quotas": {"GET": EVERYBODY},
    "/quotas/{group}": {"GET": IN_THE_GROUP, "POST": IN_THE_GROUP},  # without a number in it, it changes nothing
    "/nodes": {"GET": PLATFORM},
    "/nodes/join": {"GET": PLATFORM, "POST": PLATFORM},
    "/nodes/tokens/{join_token_id}/revoke": {"POST": PLATFORM},
    "/nodes/{node}/cordon": {"POST": PLATFORM},
    "/nodes/{node}/uncordon": {"POST": PLATFORM},
    "/nodes/{node}/drain": {"POST": PLATFORM},
    "/nodes/{node}/labels": {"GET": PLATFORM, "POST": PLATFORM},
    "/nodes/{node}/remove": {"POST": PLATFORM},
    "/pools": {"GET": PLATFORM},
    "/pools/new": {"GET": PLATFORM, "POST": PLATFORM},
    "/pools/{pool}/change": {"GET": PLATFORM, "POST": PLATFORM},
    "/pools/{pool}/outlook": {"GET": EVERYBODY},
    "/lending": {"GET": EVERYBODY},
    "/lending/new": {"GET": PLATFORM, "POST": PLATFORM},
    "/lending/{rule}/change": {"GET": PLATFORM, "POST": PLATFORM},
    "/lending/{rule}/enable": {"POST": PLATFORM},
    "/lending/{rule}/disable": {"POST": PLATFORM},
    "/lending/{rule}/delete": {"POST": PLATFORM},
    "/reserves/new": {"GET": PLATFORM, "POST": PLATFORM},
    "/reserves/{reserve}/change": {"GET": PLATFORM, "POST": PLATFORM},
    "/reserves/{reserve}/delete": {"POST": PLATFORM},
    "/whatif": {"GET": PLATFORM, "POST": PLATFORM},
    "/images": {"GET": PLATFORM},
    "/images/new": {"GET": PLATFORM, "POST": PLATFORM},
    "/images/{image}/change": {"GET": "LNFFFFY", "POST": "LNFFFFY"},
    "/images/{image}/archive": {"POST": "LNFFFFY"},
    "/profiles": {"GET": PLATFORM},
    "/profiles/new": {"GET": PLATFORM, "POST": PLATFORM},
    "/profiles/{profile}/delete": {"POST": PLATFORM},
    "/users": {"GET": PLATFORM},
    "/users/new": {"GET": PLATFORM, "POST": PLATFORM},
    "/users/{username}/password": {"GET": PLATFORM, "POST": PLATFORM},
    "/users/{username}/deactivate": {"POST": PLATFORM},
    "/users/{username}/reactivate": {"POST": PLATFORM},
    "/users/{username}/promote": {"POST": PLATFORM},
    "/users/{username}/demote": {"POST": PLATFORM},
    "/audit": {"GET": PLATFORM},
}
