//! Files of populations: any text either fails with a reason or draws sessions, each
//! within what the file may ask for.

use glassline_sim::{Population, Sample};

pub(crate) fn run(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let population = match Population::parse(&text) {
        Ok(population) => population,
        Err(error) => return assert!(!error.to_string().is_empty()),
    };
    // Long sessions at high rates have long traces, which would slow the search down.
    let population = population.lasting(std::time::Duration::from_secs(2));
    for index in 0..8 {
        let session = population.session(Sample::Tuning(1), index);
        assert!(session.stratum < population.strata().len());
        assert!(session.capacity.bps() > 0);
        let application = session.application;
        assert!(application.bitrate_min <= application.bitrate_start);
        assert!(application.bitrate_start <= application.bitrate_max);
    }
}
