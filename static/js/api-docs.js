// The browsable API page: requests go out as the signed-in person, with the CSRF token that the portal asks for.
"use strict";

function csrfToken() {
  const found = document.cookie.match(/(?:^|;\s*)(?:__Host-aistation_csrf|csrftoken)=([^;]+)/);
  return found ? found[1] : "";
}

window.SwaggerUIBundle({
  domNode: document.getElementById("api"),
  url: document.getElementById("api").dataset.schema,
  deepLinking: true,
  validatorUrl: null,
  requestInterceptor(request) {
    request.headers["X-CSRFToken"] = csrfToken();
    return request;
  },
});
