// Leads to the page of a new workflow.
import { Link } from "@tanstack/react-router";
import { t } from "../strings";
import { Icon } from "../ui/icon";

export function NewWorkflowLink() {
  return (
    <Link to="/new" className="button">
      <Icon name="plus" />
      {t.build.newWorkflow}
    </Link>
  );
}
