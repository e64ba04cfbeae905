// Texts of fields for files.
export const file = {
  choose: "Choose a file",
  replace: "Choose another file",
  remove: (label: string) => `Remove the file of ${label}`,
  tooLarge: (name: string) => `${name} is larger than 8 MiB.`,
  unreadable: (name: string) => `${name} cannot be read.`,
  unnamed: "The content of an earlier run",
};
