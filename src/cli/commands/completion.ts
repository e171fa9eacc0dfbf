/** `completion`: prints the script that makes a shell complete commands, options and their choices. */
import { Argument, type Command } from "commander";
import { NAME } from "../failure.ts";
import { action } from "../invocation.ts";
import { hitsOf } from "../prompt/completion.ts";

/**
 * The scripts call this program for every word, so a newer version completes its new options without a new script.
 * Keys are not completed: that would be a call to the server for every press of Tab.
 */
const SCRIPTS = {
  bash: `# throttr-edge completion bash >> ~/.bashrc
_throttr_edge() {
  local IFS=$'\\n'
  COMPREPLY=($(${NAME} complete -- "\${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null))
}
complete -o default -F _throttr_edge ${NAME}
`,
  zsh: `#compdef ${NAME}
# throttr-edge completion zsh >> ~/.zshrc, behind compinit
_throttr_edge() {
  local -a hits
  hits=("\${(@f)$(${NAME} complete -- "\${(@)words[2,CURRENT]}" 2>/dev/null)}")
  if [[ -n "$hits[1]" ]]; then compadd -a hits; else _files; fi
}
compdef _throttr_edge ${NAME}
`,
  fish: `# throttr-edge completion fish > ~/.config/fish/completions/throttr-edge.fish
function __throttr_edge_hits
  set -l words (commandline -opc)
  ${NAME} complete -- $words[2..-1] (commandline -ct) 2>/dev/null
end
complete -c ${NAME} -f -a '(__throttr_edge_hits)'
`,
} as const;

type Shell = keyof typeof SCRIPTS;

export function addCompletion(program: Command): void {
  program
    .command("completion")
    .description("print a script that lets a shell complete commands and options")
    .addArgument(new Argument("<shell>").choices(Object.keys(SCRIPTS)))
    .action(
      action<object, [Shell]>(async ({ output }, _options, shell) => {
        await output.write(SCRIPTS[shell]);
      }),
    );
  program
    .command("complete", { hidden: true })
    .description("completions of the last word; called by the completion scripts")
    .argument("[words...]")
    .action(
      action<object, [readonly string[]]>(async ({ output }, _options, words) => {
        const hits = await hitsOf(program, [], words.slice(0, -1), words.at(-1) ?? "", noKeys);
        await output.write(hits.map((hit) => `${hit}\n`).join(""));
      }),
    );
}

/** A shell completes without the server. */
const noKeys = (): Promise<readonly string[]> => Promise.resolve([]);
