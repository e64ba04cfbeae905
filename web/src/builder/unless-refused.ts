// Choices in fields are shown immediately, and taken back if they were refused.
import type { Outcome } from "./edit-queue";

export async function unlessRefused(
  outcome: Outcome | Promise<Outcome>,
  takeBack: () => void,
): Promise<void> {
  if ((await outcome).state === "refused") takeBack();
}
