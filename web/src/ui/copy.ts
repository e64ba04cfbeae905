// Copies texts to the clipboard.

/** Copies a text; false if the browser does not permit it. */
export async function copyText(text: string): Promise<boolean> {
  try {
    // Over plain http to another machine there is no such object.
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    return copySelected(text);
  }
}

/** Copies a text as a person would: from a field in which it is selected. */
function copySelected(text: string): boolean {
  const field = document.createElement("textarea");
  field.value = text;
  field.className = "copied-text";
  const focused = document.activeElement;
  // Outside of an open dialog nothing can have the focus.
  (document.querySelector("dialog[open]") ?? document.body).append(field);
  field.select();
  const isCopied = document.execCommand("copy");
  field.remove();
  if (focused instanceof HTMLElement) focused.focus();
  return isCopied;
}
