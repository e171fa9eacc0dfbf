/** How the page looks: in the system's fonts, light or dark as the reader's system is. */
export const STYLE = `
:root { color-scheme: light dark; --line: #8884; --soft: #8881; --link: light-dark(#06c, #8bf) }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 0 auto; padding: 1rem }
h1 small { font-weight: normal; opacity: .6 }
h2 { margin-top: 3rem; border-bottom: 1px solid var(--line) }
h3 { margin-bottom: .25rem }
h3 code { display: block; font-weight: normal; overflow-wrap: anywhere }
h4 { margin: 1rem 0 .25rem }
nav { columns: 18rem; margin-top: 2rem }
nav h2 { font-size: 1rem; margin: 0; border: 0; break-after: avoid }
nav ul { margin: 0 0 1rem; padding: 0; list-style: none; break-inside: avoid }
p { margin: .25rem 0 }
a { color: var(--link) }
section { margin-bottom: 3rem }
code, pre { font: .875em ui-monospace, monospace }
pre { padding: .75rem; overflow-x: auto; background: var(--soft) }
div { overflow-x: auto }
table { border-collapse: collapse; width: 100% }
th, td { padding: .25rem .75rem .25rem 0; text-align: left; vertical-align: top; border-top: 1px solid var(--line) }
th { font-weight: normal; opacity: .6 }
:target { background: var(--soft) }
`;
