// Makes dist/page.js: one script that Airflow's UI imports, and that finds React and the rest where the UI puts them.
import { build } from "esbuild";

// One React, one router and one theme per page: those of Airflow's UI, not copies of them.
const GLOBALS = {
  react: "React",
  "react/jsx-runtime": "ReactJSXRuntime",
  "react-router-dom": "ReactRouterDOM",
  "@chakra-ui/react": "ChakraUI",
};

const host = {
  name: "host",
  setup({ onResolve, onLoad }) {
    const names = new RegExp(`^(${Object.keys(GLOBALS).join("|")})$`);
    onResolve({ filter: names }, ({ path }) => ({ path, namespace: "host" }));
    onLoad({ filter: /.*/, namespace: "host" }, ({ path }) => ({
      contents: `module.exports = globalThis.${GLOBALS[path]}`,
      loader: "js",
    }));
  },
};

await build({
  entryPoints: ["src/main.tsx"],
  outfile: "dist/page.js",
  bundle: true,
  format: "iife",
  minify: true,
  target: "es2022",
  jsx: "automatic",
  charset: "utf8",
  legalComments: "none",
  plugins: [host],
  logLevel: "warning",
});
