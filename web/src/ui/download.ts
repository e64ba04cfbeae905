// Lets the browser save a text as a file.

export function downloadText(file: string, text: string, type = "application/json"): void {
  const address = URL.createObjectURL(new Blob([text], { type }));
  const link = document.createElement("a");
  link.href = address;
  link.download = file;
  link.click();
  URL.revokeObjectURL(address);
}
