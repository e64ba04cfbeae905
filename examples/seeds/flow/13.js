{
  type: "webScraping",
  config: {
    url: "https://example.com/page",                   // Can use ${variables}
    resultVariable: "scrapedData",                     // Store scraped content
    directOutput: false                                // If true, return immediately
  }
}
