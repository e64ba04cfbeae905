// Characters that turn the direction of text. Texts of others could look like something else with them: a name of a file that
// ends in "gnp.exe" can be shown as one that ends in "exe.png". They are shown as what they are.

/** Embeddings, overrides, isolates, and their ends. Marks such as U+200F turn nothing around. */
const CONTROLS = /[\u202A-\u202E\u2066-\u2069]/g;

/** The text with these characters by their numbers. */
export function showDirections(text: string): string {
  return text.replace(CONTROLS, (control) => `[U+${control.charCodeAt(0).toString(16).toUpperCase()}]`);
}
