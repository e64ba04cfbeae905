replaceVariables(config) {
  const deepReplace = (obj) => {
    if (typeof obj === "string") {
      // Replace all ${varName} patterns
      return obj.replace(/\${([^}]+)}/g, (match, varName) => {
        // Use dot notation to access nested values
        const value = this.getValueFromPath(this.variables, varName);
        return value !== undefined ? value : match;  // Return original if not found
      });
    }

    if (Array.isArray(obj)) return obj.map((item) => deepReplace(item));

    if (obj && typeof obj === "object") {
      const result = {};
      for (const [key, value] of Object.entries(obj)) {
        result[key] = deepReplace(value);
      }
      return result;
    }
    return obj;
  };

  return deepReplace(config);
}

// Nested path resolution
getValueFromPath(obj = {}, path = "") {
  // Handles: "data.items[0].name" → extracts nested value
  // Returns: "item_name" or undefined if path invalid
}
