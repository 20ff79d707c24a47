// Shows what the daemon answers over REST, with Swagger UI.

// Swagger UI makes elements of markup, which it cleans. It makes no script of text, and loads none.
globalThis.trustedTypes?.createPolicy("default", { createHTML: (markup) => markup });
SwaggerUIBundle({ url: "/openapi.json", dom_id: "#docs", deepLinking: true, validatorUrl: null });
