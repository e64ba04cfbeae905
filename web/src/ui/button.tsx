// Buttons, and buttons that copy a text.
import { type ComponentProps, useState } from "react";
import { t } from "../strings";
import { copyText } from "./copy";
import { Icon, type IconName } from "./icon";

type ButtonProps = ComponentProps<"button"> & {
  look?: "main" | "danger" | "quiet" | undefined;
  icon?: IconName | undefined;
};

export function Button({ look, icon, children, ...rest }: ButtonProps) {
  return (
    <button type="button" className="button" data-look={look} {...rest}>
      {icon && <Icon name={icon} />}
      {children}
    </button>
  );
}

/** A button that is only an icon. Its label is read aloud and shown as a tooltip. */
export function IconButton({
  icon,
  label,
  ...rest
}: ComponentProps<"button"> & { icon: IconName; label: string }) {
  return (
    <button
      type="button"
      className="button"
      data-look="quiet"
      data-size="icon"
      aria-label={label}
      title={label}
      {...rest}
    >
      <Icon name={icon} />
    </button>
  );
}

/** How long the button shows whether the text was copied. */
const SHOWN_MS = 1500;

export function CopyButton({ text, label = t.copy }: { text: () => string; label?: string }) {
  const [isCopied, setIsCopied] = useState<boolean>();
  const copy = async () => {
    setIsCopied(await copyText(text()));
    setTimeout(() => setIsCopied(undefined), SHOWN_MS);
  };
  const said = isCopied === undefined ? label : isCopied ? t.copied : t.notCopied;
  return (
    <Button look="quiet" icon={isCopied ? "check" : "copy"} onClick={() => void copy()}>
      <span aria-live="polite">{said}</span>
    </Button>
  );
}
