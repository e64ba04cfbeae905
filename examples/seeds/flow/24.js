if (result?.directOutput) {
  directOutputResult = result.result;
  break;  // ⭐ Skip remaining blocks
}
