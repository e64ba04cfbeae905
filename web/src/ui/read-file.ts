// Files that the viewer chooses, as the API takes them.

/** Requests have at most 16 MiB, and base64 needs a third more. */
export const MAX_FILE_BYTES = 8 * 1024 * 1024;

export type FileContent = { name: string; mime: string; base64: string };

export function readFile(file: File): Promise<FileContent> {
  return new Promise((resolve, reject) => {
    const reader = new FileReader();
    reader.onerror = () => reject(reader.error);
    reader.onload = () => {
      const base64 = String(reader.result).replace(/^[^,]*,/, "");
      resolve({ name: file.name, mime: file.type || "text/plain", base64 });
    };
    reader.readAsDataURL(file);
  });
}
