// The texts of the place for tests of workflows.
export const tests = {
  title: "Tests",
  help: "Tests repeat recorded runs without models and without the network. They are files in the folder tests of the project.",
  run: "Run all",
  runOne: (name: string) => `Run ${name}`,
  running: "Running…",
  none: "No test yet",
  noneHelp:
    "Open a run, choose “Save as test”, and put the file into the folder tests of the project. Or record one:",
  noneCommand: "flowloom test record last --as tests/NAME.json",
  passed: "Passed",
  failed: "Failed",
  notRun: "Not run",
  summary: (passed: number, failed: number) => `${passed} passed, ${failed} failed`,
  expected: "Expected",
  found: "Found",
  update: "If what happens now is right, accept it:",
  updateCommand: (file: string) => `flowloom test tests/${file} --update`,
  save: "Save as test",
  storedHelp:
    "This workflow is stored in the database, and a test refers to a file. Save both files at these places in the project; later runs of the test use the saved definition.",
  saveDefinition: "Save definition",
  saveFile: "Save test",
};
