// One script and one style sheet with fixed names: the program embeds them by name.
export default {
  oxc: { jsx: { runtime: "automatic", importSource: "preact" } },
  build: {
    outDir: "dist",
    emptyOutDir: true,
    target: "es2022",
    modulePreload: false,
    cssCodeSplit: false,
    assetsInlineLimit: 0,
    rollupOptions: {
      output: { entryFileNames: "assets/page.js", assetFileNames: "assets/page[extname]" },
    },
  },
};
