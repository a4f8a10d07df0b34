"""The bundled models: two small causal LMs that differ in nothing but the norm, and how they are trained."""
